"""The text of an outcome for a model: the part that all providers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from toolstile_hookspecs import (
    Contents,
    DeadlineExceededError,
    Interrupt,
    Outcome,
    PromptEvaluationError,
    Tool,
    ToolCall,
    VisibilityExpansionRequired,
)

UNKNOWN_ID: Final = "unknown"
_UNDONE: Final = "What it changed was rolled back."


# Made for each call and read at once: freezing it would cost more than all that is read.
@dataclass(slots=True)
class Answer:
    """The answer to one call.

    Args:
        call_id: The provider's id of the call.
        name: The tool that was asked for.
        text: What the model reads.
        success: Whether the call did what it should.
        is_error: Whether the host refused, rolled back or caught it.
        call: The call, where it is known.
        tool: The tool, where there is one.
        data: The value as compact JSON, where there is one to show.
        contents: The value, where it is more than text.
        preface: What is read before the contents.
    """

    call_id: str
    name: str
    text: str
    success: bool
    is_error: bool
    call: ToolCall | None = None
    tool: Tool[Any, Any] | None = None
    data: bytes | None = None
    contents: Contents | None = None
    preface: str = ""


def answer(item: Outcome | BaseException) -> Answer:
    """Return the answer that an outcome, or an exception in its place, comes to.

    An exception is answered without its text, which is not for the model. Which call it
    belongs to is taken from its attribute `call`, a `ToolCall`.
    """
    if isinstance(item, BaseException):
        call = getattr(item, "call", None)
        asked = call if isinstance(call, ToolCall) else None
        return Answer(
            call_id=asked.id if asked is not None else UNKNOWN_ID,
            name=asked.name if asked is not None else UNKNOWN_ID,
            text=_explain(item),
            success=False,
            is_error=True,
            call=asked,
        )
    value = item.result.value if item.data is not None else None
    contents = value if isinstance(value, Contents) else None
    return Answer(
        call_id=item.call.id,
        name=item.call.name,
        text=item.text,
        success=item.success,
        is_error=item.is_error,
        call=item.call,
        tool=item.tool,
        data=item.data,
        contents=contents,
        preface=item.result.message if contents is not None else "",
    )


def _explain(error: BaseException) -> str:
    if isinstance(error, VisibilityExpansionRequired):
        keys = ", ".join(error.section_keys)
        return f"These sections have to be opened first: {keys}. Read them, then retry."
    if isinstance(error, Interrupt):
        return f"The run was paused during this call. {_UNDONE} It requires human intervention."
    if isinstance(error, (DeadlineExceededError, PromptEvaluationError)):
        return (
            f"The evaluation ended before this call was done. {_UNDONE} "
            "It cannot be called again in this run."
        )
    return f"The call was stopped before it was done. {_UNDONE} It cannot be completed in this run."

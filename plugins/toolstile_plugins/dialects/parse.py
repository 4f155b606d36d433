"""The parts that all providers share: replies as calls, valid or not, and outcomes as answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from toolstile_hookspecs import (
    Contents,
    DeadlineExceededError,
    ExecutorHandle,
    Interrupt,
    OpenedSections,
    Outcome,
    Prompt,
    PromptEvaluationError,
    Tool,
    ToolCall,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.agents.guidance import GuidedOutcome
from toolstile_hookspecs.calls import NO_META
from toolstile_hookspecs.execution.schemas import examples_of

CUT_OFF: Final = "{"
"""The arguments of a call that broke off before any arrived: not JSON, so that parsing refuses."""

ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")


def field(thing: object, *names: str) -> Any:
    """Return the first of the keys or attributes that is there and not None, or None."""
    for name in names:
        if isinstance(thing, Mapping):
            value = cast("Mapping[str, object]", thing).get(name)
        else:
            value = getattr(thing, name, None)
        if value is not None:
            return value
    return None


def items(thing: object) -> list[Any]:
    """Return the items of a list or tuple; nothing for anything else."""
    return list(cast("Iterable[Any]", thing)) if isinstance(thing, (list, tuple)) else []


def listed(thing: object, name: str) -> list[Any]:
    """Return the items of a list, or of the list that a key or attribute holds."""
    return items(thing) or items(field(thing, name))


def mapping(thing: object) -> Mapping[str, Any]:
    """Return a mapping, or a client's object as one; an empty one for anything else."""
    if isinstance(thing, Mapping):
        return cast("Mapping[str, Any]", thing)
    dump = getattr(thing, "model_dump", None)
    told = {"by_alias": True, "exclude_none": True, "warnings": False}
    dumped: object = dump(**told) if callable(dump) else None
    return cast("dict[str, Any]", dumped) if isinstance(dumped, dict) else {}


def text_of(content: object) -> str:
    """Return the text of a message, which some servers send in parts."""
    parts = [content] if isinstance(content, str) else items(content)
    texts = [each if isinstance(each, str) else field(each, "text", "refusal") for each in parts]
    return "".join(text for text in texts if isinstance(text, str))


def parts_of(content: object) -> list[dict[str, Any]]:
    """Return the parts of a content; some servers send a text in the place of one or of all."""
    parts = items(content)
    if not isinstance(content, (list, tuple)):
        parts = [content]
    texts: list[Any] = [
        {"type": "text", "text": each} if isinstance(each, str) else each for each in parts
    ]
    return [dict(each) for each in texts if each is not None]


def arguments(value: object) -> str | bytes | Mapping[str, Any]:
    """Return a call's arguments: text and objects as they are, nothing and `""` as `{}`.

    Anything else becomes its JSON text, so that parsing tells the model the fault.
    """
    if value is None:
        return "{}"
    if isinstance(value, (str, bytes)):
        return value or "{}"
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    try:
        return json.dumps(value, default=str)
    except (ValueError, RecursionError):
        return "[]"


def call(
    name: object, given: object, call_id: object, meta: Mapping[str, Any] | None = None
) -> ToolCall:
    """Return a call; a name that is not a text is empty, so that lookup refuses it."""
    wanted = name if isinstance(name, str) else ""
    id_ = str(call_id) if isinstance(call_id, (str, int)) else ""
    return ToolCall(wanted, arguments(given), meta=meta or NO_META, provider_id=id_)


def without_end(calls: list[ToolCall]) -> list[ToolCall]:
    """Return calls whose end did not arrive; the last is refused if it has no arguments."""
    if not calls or calls[-1].arguments not in ({}, "{}"):
        return calls
    return [*calls[:-1], replace(calls[-1], arguments=CUT_OFF)]


def joined(
    said: list[Any], reply: list[Any], calls_in: Callable[[list[Any]], list[ToolCall]]
) -> list[ToolCall]:
    """Return the calls of a conversation and of the reply to it, each once.

    A recording may hold the reply in the conversation as well. It is recognised by the ids of its
    calls, or as the last entry: a conversation for a model does not end with calls.
    """
    calls = calls_in(said)
    if said[-len(reply) :] == reply:
        return calls
    known = [_as_given(call) for call in calls if call.provider_id]
    return [*calls, *(call for call in calls_in(reply) if _as_given(call) not in known)]


def _as_given(call: ToolCall) -> tuple[object, ...]:
    return call.provider_id, call.name, call.arguments


def known(
    calls: list[ToolCall], entries: list[Any], is_entry: Callable[[Any], bool]
) -> list[ToolCall] | None:
    """Return the calls of entries; None where they are not a conversation.

    They are one with any call, or if `is_entry` knows each of them.
    """
    return calls if calls or (entries and all(map(is_entry, entries))) else None


def is_message(entry: object) -> bool:
    """Tell a message from whatever else has a role: it has content, or calls of the model."""
    role = field(entry, "role")
    if field(entry, "content") is None:
        return role == "assistant" and field(entry, "parts") is None
    return role in ROLES


def tools_of(tools: Prompt | Iterable[Tool[Any, Any]]) -> list[Tool[Any, Any]]:
    """Return the tools of a prompt's enabled sections, or those given."""
    return tools.tools() if isinstance(tools, Prompt) else list(tools)


MAX_DESCRIPTION: Final = 1_024
"""The maximum number of characters of a description at OpenAI, which refuses a longer one."""


def with_examples(tool: Tool[Any, Any]) -> str:
    """Return the description of a tool, and below it as many of its examples as there is room for.

    No provider's tools have a field for all of an example.
    """
    text, label = tool.long_description or tool.description, "\n\nExamples:"
    for description, given, output in examples_of(tool):
        longer = f"{text}{label}\n- {description.rstrip('.')}: {given}"
        with_output = longer if output == "null" else f"{longer} -> {output}"
        for shown in (with_output, longer):
            if len(shown) <= MAX_DESCRIPTION:
                text, label = shown, ""
                break
    return text


def opened(tools: ExecutorHandle, request: VisibilityExpansionRequired) -> str:
    """Open the sections that a call asked for; return the text that its model reads."""
    keys = ", ".join(request.section_keys)
    if set(request.section_keys) <= OpenedSections.of(tools.session):
        return f"These sections were open already: {keys}."
    tools.expand(request)
    return f"These sections are open now: {keys}."


UNKNOWN_ID: Final = "unknown"
_UNDONE: Final = "What it changed was rolled back."


# Made for each call and read at once: freezing it would cost more than all that is read.
@dataclass(slots=True)
class Answer:
    """The answer to one call, with the call and the tool if they are known."""

    call_id: str  # the provider's, else the host's
    name: str
    text: str  # for the model
    success: bool
    is_error: bool  # whether the host refused, rolled back or caught the call
    call: ToolCall | None = None
    tool: Tool[Any, Any] | None = None
    data: bytes | None = None  # the value as compact JSON, if a value is shown
    contents: Contents | None = None  # the value, if it is more than text
    preface: str = ""  # before the contents
    feedback: str = ""  # on the batch of the call, to be read after its result

    @property
    def whole_text(self) -> str:
        """The text for the model, and the feedback below it."""
        return "\n\n".join(filter(None, (self.text, self.feedback)))


def answer(item: Outcome | BaseException) -> Answer:
    """Return the answer of an outcome, or of an exception with an attribute `call`.

    An exception is answered without its text, which is not for the model.
    """
    if isinstance(item, BaseException):
        call = getattr(item, "call", None)
        asked = call if isinstance(call, ToolCall) else None
        return Answer(
            call_id=UNKNOWN_ID if asked is None else asked.wire_id,
            name=asked.name if asked is not None else UNKNOWN_ID,
            text=_explain(item),
            success=False,
            is_error=True,
            call=asked,
        )
    event, call, result = item.event, item.call, item.result
    data, given = event.data, item.feedback if isinstance(item, GuidedOutcome) else ()
    contents = result.value if data is not None and isinstance(result.value, Contents) else None
    return Answer(
        call_id=call.wire_id,
        name=call.name,
        text=event.text,
        success=event.success,
        is_error=item.is_error,
        call=call,
        tool=event.tool,
        data=data,
        contents=contents,
        preface=result.message if contents is not None else "",
        feedback="\n\n".join(each.render() for each in given),
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

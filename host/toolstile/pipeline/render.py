"""From a result to the JSON that is kept and the text that the model reads."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.failures import CallRejected
from toolstile.pipeline.hook_calls import WrapperStack, ask
from toolstile.pipeline.masking import log_failure, note_secrets
from toolstile.pipeline.plan import DispatchTable, ToolPlan
from toolstile_hookspecs import Content, Contents, EmbeddedResource, Outcome, Status, TextContent
from toolstile_hookspecs.codecs import why_unwritable
from toolstile_hookspecs.results import reads_as_json, render_result
from toolstile_hookspecs.support.text import cut, legible

log = logging.getLogger("toolstile.pipeline")

_WHOLE = "it is the outcome of another call; return its result, or its text"


def render(call: ActiveCall, table: DispatchTable, plan: ToolPlan) -> None:
    """Write the value as JSON, and the text for the model.

    Raises:
        CallRejected: When the value has no JSON form.
    """
    tool, result = plan.tool, call.result
    if tool.exclude_value_from_context and not result.exclude_value_from_context:
        result = call.result = replace(result, exclude_value_from_context=True)
    value = result.value
    if call.reruns:
        call.data, call.tells_json = None, False
    if value is not None:
        codec = tool.result_codec
        if not result.exclude_value_from_context:
            if _is_read_once(value.__class__):
                kind = value.__class__.__name__
                msg = f"its value is a {kind}, which can be read once only"
                raise CallRejected(Status.ERROR, f"Internal error in {call.name}: {msg}.")
            try:
                call.data = codec.encode(value)
            except (ValueError, TypeError, RecursionError) as error:
                reason = _WHOLE if isinstance(value, Outcome) else why_unwritable(error)
                msg = f"its value cannot be written as JSON ({reason})"
                raise CallRejected(
                    Status.ERROR, f"Internal error in {call.name}: {msg}."
                ) from error
        if codec.secret_schema():
            note_secrets(call, value, codec)
    if call.data is not None and len(call.data) > call.executor.max_text and call.parent is None:
        _fit(call, plan)
    if (
        call.data is not None
        and not table.renders
        and not table.render_wrappers
        and reads_as_json(result)
    ):
        # The event makes the text of the JSON when it is read.
        call.tells_json = True
    else:
        _render_text(call, table, plan)


def _render_text(call: ActiveCall, table: DispatchTable, plan: ToolPlan) -> None:
    try:
        if table.renders or table.render_wrappers:
            call.text = _ask_renderers(call, table, plan)
        else:
            call.text = render_result(call.result, call.data)
    except Exception:  # noqa: BLE001 - logged without secrets
        log_failure(call, log, "Rendering the result of %s failed; its plain form is used.", call)
        call.text = _render_plainly(call)
    if (text := legible(call.text)) != call.text:
        call.text = text
        call.result = replace(call.result, message=legible(call.result.message))
    # The caller of a nested call may need the whole text.
    value = call.result.value
    if len(call.text) > call.executor.max_text and call.parent is None:
        # The model reads the lines of a list for its items, so that a cut would lose some of them.
        is_text = value is None or isinstance(value, str) or hasattr(value, "render")
        if not (call.result.exclude_value_from_context or is_text):
            _check_size(call, call.text)
        call.text = cut(call.text, call.executor.max_text)
    # A dataclass without `render()` reads as JSON, too.
    call.tells_json = call.text.encode() == call.data


def _fit(call: ActiveCall, plan: ToolPlan) -> None:
    """Make a value fit that may be too long; dialects pass on the parts of contents, one by one."""
    value: Any = call.result.value
    if value.__class__ is Contents:
        if value.structured is not None:
            _check_size(call, json.dumps(value.structured, ensure_ascii=False, default=str))
        if len(value.render()) > call.executor.max_text:
            call.result = replace(call.result, value=_shortened(value, call.executor.max_text))
            call.data = plan.tool.result_codec.encode(call.result.value)
    elif reads_as_json(call.result) and call.data is not None:
        _check_size(call, call.data.decode())


def _shortened(contents: Contents, most: int) -> Contents:
    """Return contents with shorter texts, so that they render as so many characters.

    The longest texts lose most. Names and addresses stay whole.
    """
    sizes = sorted(len(getattr(part, "text", None) or "") for part in contents.parts)
    room = share = max(most - len(contents.render()) + sum(sizes), 0)
    for number, size in enumerate(sizes):
        share = room // (len(sizes) - number)
        if size > share:
            break
        room -= size
    return replace(contents, parts=tuple(_shorter(part, share) for part in contents.parts))


def _shorter(part: Content, most: int) -> Content:
    if isinstance(part, (TextContent, EmbeddedResource)) and part.text:
        return replace(part, text=cut(part.text, most))
    return part


def _check_size(call: ActiveCall, text: str) -> None:
    """Refuse a structured value that is too long for a model: a part of its JSON has no meaning."""
    most = call.executor.max_text
    if len(text) <= most:
        return
    tool = call.plan.tool if call.plan is not None else None
    is_over = tool is None or tool.contained or tool.category == "read"
    told = "then retry" if is_over else "after you have found out whether its effect happened"
    raise CallRejected(
        Status.ERROR,
        f"{call.name} ran, but its value takes {len(text):,} characters, and a model is given "
        f"{most:,} at most. Ask for less, {told}.",
    )


@lru_cache(maxsize=1024)
def _is_read_once(kind: type[Any]) -> bool:
    return hasattr(kind, "__next__")


def _ask_renderers(call: ActiveCall, table: DispatchTable, plan: ToolPlan) -> str:
    wrapped = WrapperStack()
    try:
        for each in table.render_wrappers:
            wrapped.enter(each, plan.tool, call.result)
        answers = (ask(call, each, plan.tool, call.result) for each in table.renders)
        text = next((each for each in answers if each is not None), None)
        if text is None:
            text = render_result(call.result, call.data)
    except BaseException as error:  # noqa: BLE001 - the wrappers see it first
        text = wrapped.fail(error)
    else:
        text = wrapped.leave(text)
    if not isinstance(text, str):
        raise TypeError(f"a render hook gave {type(text).__name__}, not text")
    return text


def _render_plainly(call: ActiveCall) -> str:
    """Return the host's own rendering, or the value as JSON where that fails, too."""
    with suppress(Exception):
        return render_result(call.result, call.data)
    value = call.data.decode() if call.data is not None else ""
    return "\n".join(part for part in (call.result.message, value) if part)

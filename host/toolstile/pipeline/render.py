"""From a result to the JSON that is kept and the text that the model reads."""

from __future__ import annotations

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
from toolstile_hookspecs import Outcome, Status
from toolstile_hookspecs.codecs import encodable, why_unwritable
from toolstile_hookspecs.results import reads_as_json, render_result

log = logging.getLogger("toolstile.pipeline")

_WHOLE = "it is the outcome of another call; return its result, or its text"


def render(run: ActiveCall, table: DispatchTable, plan: ToolPlan) -> None:
    """Write the value as JSON, and what the model reads.

    Raises:
        CallRejected: When the value has no JSON form.
    """
    tool, result = plan.tool, run.result
    if tool.exclude_value_from_context and not result.exclude_value_from_context:
        result = run.result = replace(result, exclude_value_from_context=True)
    value = result.value
    if run.reruns:
        run.data, run.tells_json = None, False
    if value is not None:
        codec = tool.result_codec
        if not result.exclude_value_from_context:
            if _is_read_once(value.__class__):
                kind = value.__class__.__name__
                msg = f"its value is a {kind}, which can be read once only"
                raise CallRejected(Status.ERROR, f"Internal error in {run.name}: {msg}.")
            try:
                run.data = codec.encode(value)
            except (ValueError, TypeError, RecursionError) as error:
                reason = _WHOLE if isinstance(value, Outcome) else why_unwritable(error)
                msg = f"its value cannot be written as JSON ({reason})"
                raise CallRejected(Status.ERROR, f"Internal error in {run.name}: {msg}.") from error
        if codec.secret_schema():
            note_secrets(run, value, codec)
    if (
        run.data is not None
        and not table.renders
        and not table.render_wrappers
        and reads_as_json(result)
    ):
        # The event makes the text of the JSON, for whoever reads it.
        run.tells_json = True
    else:
        _render_text(run, table, plan)


def _render_text(run: ActiveCall, table: DispatchTable, plan: ToolPlan) -> None:
    try:
        if table.renders or table.render_wrappers:
            run.text = _ask_renderers(run, table, plan)
        else:
            run.text = render_result(run.result, run.data)
    except Exception:  # noqa: BLE001 - logged without secrets
        log_failure(run, log, "Rendering the result of %s failed; it is rendered plainly.", run)
        run.text = _render_plainly(run)
    if (text := encodable(run.text)) != run.text:
        run.text = text
        run.result = replace(run.result, message=encodable(run.result.message))
    # A dataclass without `render()` reads as JSON, too.
    run.tells_json = run.text.encode() == run.data


@lru_cache(maxsize=1024)
def _is_read_once(kind: type[Any]) -> bool:
    return hasattr(kind, "__next__")


def _ask_renderers(run: ActiveCall, table: DispatchTable, plan: ToolPlan) -> str:
    wrapped = WrapperStack()
    try:
        for each in table.render_wrappers:
            wrapped.enter(each, plan.tool, run.result)
        answers = (ask(run, each, plan.tool, run.result) for each in table.renders)
        text = next((each for each in answers if each is not None), None)
        if text is None:
            text = render_result(run.result, run.data)
    except BaseException as error:  # noqa: BLE001 - the wrappers see it first
        text = wrapped.fail(error)
    else:
        text = wrapped.leave(text)
    if not isinstance(text, str):
        msg = f"a render hook gave {type(text).__name__}, not text"
        raise TypeError(msg)
    return text


def _render_plainly(run: ActiveCall) -> str:
    """Return the host's own rendering, or the value as JSON where that fails, too."""
    with suppress(Exception):
        return render_result(run.result, run.data)
    value = run.data.decode() if run.data is not None else ""
    return "\n".join(part for part in (run.result.message, value) if part)

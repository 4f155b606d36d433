"""From a result to the JSON that is kept and the text that the model reads."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from toolyard.pipeline.asking import Wrapped, ask
from toolyard.pipeline.call_run import CallRun
from toolyard.pipeline.masking import log_failure, note_secrets
from toolyard.pipeline.plan import Plan, Table
from toolyard.pipeline.refusals import Refusal
from toolyard_hookspecs import Outcome, Status
from toolyard_hookspecs.results import reads_as_json, render_result
from toolyard_hookspecs.unwritable import encodable, why_unwritable

log = logging.getLogger("toolyard.pipeline")

_WHOLE = "it is the outcome of another call; return its result, or its text"


def render(run: CallRun, table: Table, plan: Plan) -> None:
    """Write the value as JSON, and what the model reads.

    Raises:
        Refusal: When the value has no JSON form.
    """
    if plan.tool.exclude_value_from_context and not run.result.exclude_value_from_context:
        run.result = replace(run.result, exclude_value_from_context=True)
    result = run.result
    # It may be the second time, after a conflict.
    run.data, run.tells_json = None, False
    if result.value is not None and not result.exclude_value_from_context:
        kind = result.value.__class__
        if _is_read_once(kind):
            msg = (
                f"Internal error in {run.name}: its value is a {kind.__name__}, which can be read "
                "once only."
            )
            raise Refusal(Status.ERROR, msg)
        try:
            run.data = plan.tool.result_codec.encode(result.value)
        except (ValueError, TypeError, RecursionError) as error:
            reason = _WHOLE if isinstance(result.value, Outcome) else why_unwritable(error)
            msg = f"Internal error in {run.name}: its value cannot be written as JSON ({reason})."
            raise Refusal(Status.ERROR, msg) from error
    if result.value is not None and plan.tool.result_codec.secret_schema():
        note_secrets(run, result.value, plan.tool.result_codec)
    try:
        if table.renders or table.render_wrappers:
            run.text = _ask_renderers(run, table, plan)
        elif run.data is not None and reads_as_json(result):
            # The event makes the text of the JSON, for whoever reads it.
            run.tells_json = True
        else:
            run.text = render_result(result, run.data)
    except Exception:  # noqa: BLE001 - logged without secrets
        log_failure(run, log, "Rendering the result of %s failed; it is rendered plainly.", run)
        run.text = _render_plainly(run)
    if not run.tells_json and (text := encodable(run.text)) != run.text:
        run.text = text
        run.result = replace(run.result, message=encodable(run.result.message))


@lru_cache(maxsize=1024)
def _is_read_once(kind: type[Any]) -> bool:
    return hasattr(kind, "__next__")


def _ask_renderers(run: CallRun, table: Table, plan: Plan) -> str:
    wrapped = Wrapped()
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


def _render_plainly(run: CallRun) -> str:
    """Return the host's own rendering, or the value as JSON where that fails, too."""
    with suppress(Exception):
        return render_result(run.result, run.data)
    value = run.data.decode() if run.data is not None else ""
    return "\n".join(part for part in (run.result.message, value) if part)

"""From a call's arguments to typed params."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from toolyard.pipeline.asking import Wrapped, first_result
from toolyard.pipeline.call_run import CallRun
from toolyard.pipeline.plan import Table
from toolyard.pipeline.refusals import Refusal
from toolyard.pipeline.steps import Step
from toolyard_hookspecs import Status, ToolCall
from toolyard_hookspecs.codecs import as_json

Staged = Generator[Step, Any, Any]


def parse(run: CallRun, table: Table, call: ToolCall) -> Staged:
    """Turn the call's arguments into params, through the plugins that have a say in it."""
    plan = run.plan
    assert plan is not None  # noqa: S101 - looked up before
    tool = plan.tool
    run.arguments = as_json(call.arguments)
    if len(run.arguments) > run.executor.max_arguments:
        msg = (
            f"Invalid arguments: {len(run.arguments):,} bytes, {run.executor.max_arguments:,} are "
            "allowed. Send less, then retry."
        )
        raise Refusal(Status.INVALID, msg)
    if not table.parses and not table.parse_wrappers:
        run.params = tool.params_codec.decode(run.arguments)
        return
    wrapped = Wrapped(table.parse_wrappers, tool, call)
    wrapped.enter()
    try:
        params = yield from first_result(run, table.parses, tool, call)
        if params is None:
            params = tool.params_codec.decode(run.arguments)
    except BaseException as error:  # noqa: BLE001 - the wrappers see it first
        params = wrapped.fail(error)
    else:
        params = wrapped.leave(params)
    run.params = params
    run.arguments = tool.params_codec.encode(params)

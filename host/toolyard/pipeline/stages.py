"""The life of a call, stage by stage, written once.

`pipeline` is a generator that does no waiting itself: it yields `Step`s, and a driver,
sync or async, carries them out and sends the answers back.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Generator
from contextlib import AbstractContextManager
from typing import Any

from toolyard.pipeline.asking import ask, first_result
from toolyard.pipeline.batch import Milestone
from toolyard.pipeline.call_run import CallRun
from toolyard.pipeline.checking import admit, check
from toolyard.pipeline.ending import fail, publish
from toolyard.pipeline.parsing import ask_parsers, parse
from toolyard.pipeline.plan import Plan, Table
from toolyard.pipeline.refusals import Refusal
from toolyard.pipeline.steps import Step, WaitFor
from toolyard.pipeline.transaction import transact
from toolyard_hookspecs import Outcome, Stage, Status, ToolCall

log = logging.getLogger("toolyard.pipeline")

Staged = Generator[Step, Any, Any]


def pipeline(run: CallRun) -> Generator[Step, Any, Outcome]:
    """Take a call through all stages.

    Returns:
        The outcome, for whatever became of the call.

    Raises:
        BaseException: What is not the call's own: see `refusals.read_failure`.
    """
    table = run.executor.table()
    traces = _enter_traces(table, run) if table.traces else None
    try:
        try:
            yield from _pass_stages(run, table)
        except GeneratorExit as error:
            _finish_without_waiting(run, table, error)
        except BaseException as error:  # noqa: BLE001 - every end is an outcome first
            yield from fail(run, table, error)
        publish(run, table)
    finally:
        run.end()
        if traces:
            _leave_traces(traces)
    if run.raises is not None:
        raise run.raises
    return run.outcome


def _pass_stages(run: CallRun, table: Table) -> Staged:
    plan = table.plans.get(run.call_made.name)
    if table.lookups or plan is None:
        plan = yield from _look_up(run, table, plan)
    run.plan = plan
    tool = plan.tool
    if tool.handler is None and not table.executes:
        msg = f"{tool.name} cannot be called: it has no handler."
        raise Refusal(Status.UNKNOWN_TOOL, msg)
    run.stage = Stage.PARSE
    if table.parses or table.parse_wrappers:
        yield from ask_parsers(run, table, run.call_made)
    else:
        parse(run, run.call_made)
    run.stage = Stage.DEADLINE
    run.check_limits()
    run.open()
    if run.batch is not None:
        yield WaitFor(run.batch.before(Milestone.ADMITTED, run.index), run.limit_without_timeout())
    if plan.checks or plan.confirms:
        run.stage = Stage.CHECK
        yield from check(run, table)
    run.stage = Stage.RESERVE
    admit(run)
    yield from transact(run, table)


def _look_up(run: CallRun, table: Table, by_name: Plan | None) -> Generator[Step, Any, Plan]:
    call = run.call_made
    tool = yield from first_result(run, table.lookups, call, run.executor.catalog)
    plan = by_name if tool is None else run.executor.plan_of(tool)
    if plan is None:
        raise Refusal(Status.UNKNOWN_TOOL, _unknown(call, table))
    return plan


def _unknown(call: ToolCall, table: Table) -> str:
    near = difflib.get_close_matches(call.name[:100].lower(), table.names, n=3, cutoff=0.5)
    shown = call.name if len(call.name) <= 80 else f"{call.name[:80]}..."  # noqa: PLR2004
    if near:
        return f"There is no tool {shown!r}. Did you mean {', '.join(near)}? Use that, then retry."
    if not table.names:
        return f"There is no tool {shown!r}; no tools can be called here."
    some = ", ".join(table.names[:10]) + (", ..." if len(table.names) > 10 else "")  # noqa: PLR2004
    return f"There is no tool {shown!r}. There are: {some}. Use one of these, then retry."


def _finish_without_waiting(run: CallRun, table: Table, error: GeneratorExit) -> None:
    ending = fail(run, table, error)
    try:
        next(ending)
        while True:
            ending.throw(error)
    except StopIteration:
        return


def _enter_traces(table: Table, run: CallRun) -> list[tuple[str, AbstractContextManager[Any]]]:
    entered: list[tuple[str, AbstractContextManager[Any]]] = []
    for each in table.traces:
        try:
            trace = ask(run, each, run.call_made)
            if trace is not None:
                trace.__enter__()
                entered.append((each.plugin, trace))
        except Exception:
            log.exception("Plugin %s failed to trace a call; the call goes on.", each.plugin)
    return entered


def _leave_traces(entered: list[tuple[str, AbstractContextManager[Any]]]) -> None:
    while entered:
        plugin, trace = entered.pop()
        try:
            trace.__exit__(None, None, None)
        except Exception:
            log.exception("Plugin %s failed to end its trace of a call.", plugin)

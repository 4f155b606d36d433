"""The life of a call, stage by stage, written once.

`pipeline` is a generator that does no waiting itself: it yields `Step`s, and a driver,
sync or async, carries them out and sends the answers back.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from toolyard.pipeline.asking import first_result
from toolyard.pipeline.call_run import CallRun
from toolyard.pipeline.checking import admit, check
from toolyard.pipeline.ending import fail, publish
from toolyard.pipeline.marks import ADMITTED, CHECK, DEADLINE, PARSE, RESERVE
from toolyard.pipeline.parsing import ask_parsers, parse, shown_call
from toolyard.pipeline.plan import Plan, Table
from toolyard.pipeline.plugin_faults import wrong_answer
from toolyard.pipeline.refusals import Refusal, without_handler
from toolyard.pipeline.steps import Staged, Step, WaitFor, was_raised
from toolyard.pipeline.tracing import Entered, enter_traces, leave_traces
from toolyard.pipeline.transaction import transact
from toolyard_hookspecs import Outcome, Status, Tool


def pipeline(run: CallRun) -> Generator[Step, Any, Outcome]:
    """Take a call through all stages.

    Returns:
        The outcome, for whatever became of the call.

    Raises:
        BaseException: What is not the call's own: see `refusals.read_failure`.
    """
    traces: Entered = []
    try:
        table = run.executor.table()
        try:
            if table.traces:
                enter_traces(table, run, traces)
            yield from _pass_stages(run, table)
        except BaseException as error:  # noqa: BLE001 - every end is an outcome first
            try:
                yield from _fail(run, table, error)
            except BaseException as interruption:  # noqa: BLE001 - likewise
                # It may have come before anything was put back.
                yield from _fail(run, table, interruption)
        try:
            publish(run, table)
        except BaseException:
            if not hasattr(run, "outcome"):
                # Interrupted before it was told to anybody.
                publish(run, table)
            raise
    finally:
        try:
            run.end()
        except BaseException:
            # An interruption, such as Ctrl-C, must not leave others waiting for ever.
            run.end()
            raise
        if traces:
            leave_traces(traces, run)
    if run.raises is not None:
        raise run.raises
    return run.outcome


def _fail(run: CallRun, table: Table, error: BaseException) -> Staged:
    if isinstance(error, GeneratorExit) and not was_raised(error):
        _finish_without_waiting(run, table, error)
    else:
        yield from fail(run, table, error)


def _pass_stages(run: CallRun, table: Table) -> Staged:
    plan = table.plans.get(run.call_made.name)
    if table.lookups or plan is None:
        plan = yield from _look_up(run, table, plan)
    run.plan = plan
    tool = plan.tool
    if tool.handler is None and not plan.executes:
        raise without_handler(tool.name)
    run.stage = PARSE
    if table.parses or table.parse_wrappers:
        yield from ask_parsers(run, table, shown_call(run))
    else:
        parse(run, run.call_made)
    run.stage = DEADLINE
    run.check_limits()
    run.open()
    if run.batch is not None:
        yield WaitFor(run.batch.before(ADMITTED, run.index), run.limit_without_timeout())
    if plan.checks or plan.confirms or run.resumption is not None:
        run.stage = CHECK
        yield from check(run, table)
    run.stage = RESERVE
    admit(run)
    yield from transact(run, table)


def _look_up(run: CallRun, table: Table, by_name: Plan | None) -> Generator[Step, Any, Plan]:
    tool: Tool[Any, Any] | None = None
    if table.lookups:
        tool = yield from _ask_lookups(run, table)
    plan = by_name if tool is None else run.executor.plan_of(tool)
    if plan is None:
        raise Refusal(Status.UNKNOWN_TOOL, table.missing.explain(run.call_made.name))
    return plan


def _ask_lookups(run: CallRun, table: Table) -> Staged:
    call, catalog = shown_call(run), run.executor.catalog
    for each in table.lookups:
        found = yield from first_result(run, (each,), call, catalog)
        if found is not None:
            if not isinstance(found, Tool):
                raise wrong_answer(each, found, "a Tool, or None")
            return found  # pyright: ignore[reportUnknownVariableType] - whatever its params are
    return None


def _finish_without_waiting(run: CallRun, table: Table, error: GeneratorExit) -> None:
    ending = fail(run, table, error)
    try:
        next(ending)
        while True:
            ending.throw(error)
    except StopIteration:
        return

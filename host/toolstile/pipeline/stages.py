"""The life of a call, from top to bottom, written once.

`life_of` is a generator that never waits by itself. Where something has to be waited for, it
yields a `Step`; a driver, sync or async, carries the step out and sends the answer back.

A stage is a plain function: it does its work and returns what it makes. Only a stage that has to
wait returns a generator instead, and the pipeline delegates to that. So a call that nobody makes
wait runs through plain functions, and there is one way through for all calls.

What a tool does not need is known before its first call: `plan` (of the tool) and `table` (of the
executor) hold the policies and hooks that concern it, and an empty tuple costs its calls one test.
"""

from __future__ import annotations

from collections.abc import Generator
from types import GeneratorType
from typing import Any, Final

from toolstile.pipeline.call_run import CallRun
from toolstile.pipeline.checking import admit, check, refuse_unsettled
from toolstile.pipeline.committing import commit
from toolstile.pipeline.ending import end_surely, publish_surely, roll_back
from toolstile.pipeline.handling import ask_and_run, run_handler
from toolstile.pipeline.lookup import look_up
from toolstile.pipeline.marks import (
    ADMITTED,
    CHECK,
    CLAIMED,
    DEADLINE,
    EXECUTE,
    FORKED,
    ON_RESULT,
    PARSE,
    PREPARE,
    RENDER,
    RESERVE,
    VALIDATE,
)
from toolstile.pipeline.parsing import ask_parsers, parse, shown_call
from toolstile.pipeline.plan import Plan, Table
from toolstile.pipeline.refusals import HandlerFailed, without_handler
from toolstile.pipeline.rendering import render
from toolstile.pipeline.reviewing import Edited, start_over
from toolstile.pipeline.steps import Staged, Step, WaitFor
from toolstile.pipeline.telling import tell_session
from toolstile.pipeline.tracing import Entered, enter_traces, leave_traces
from toolstile.pipeline.transaction import (
    look_again,
    redo_after_conflict,
    show_and_validate,
    take_serial,
    take_snapshots,
    tell_result,
    wait_for_turn,
)
from toolstile.resources.self_waits import CURRENT
from toolstile_hookspecs import ConflictError, Outcome, Replay, Stage

CONFLICTING: Final = frozenset({EXECUTE, VALIDATE, ON_RESULT, PREPARE})
"""Stages at which a conflict can show: a resource may notice it before the commit."""


def life_of(call: CallRun) -> Generator[Step, Any, Outcome]:
    """Take a call through its stages. One event is published, whatever becomes of the call.

    Returns:
        The outcome.

    Raises:
        BaseException: What is not the call's own; see `refusals.read_failure`.
    """
    traces: Entered = []
    call.entered = CURRENT.set(call)
    try:
        table = call.executor.table()
        try:
            if table.traces:
                enter_traces(table, call, traces)
            yield from pass_stages(call, table)
        except BaseException as error:  # noqa: BLE001 - every end is an outcome first
            yield from roll_back(call, table, error)
        publish_surely(call, table)
    finally:
        end_surely(call)
        if traces:
            leave_traces(traces, call)
    if call.raises is not None:
        raise call.raises
    return call.outcome


def pass_stages(call: CallRun, table: Table) -> Staged:  # noqa: C901, PLR0912 - read from top to bottom
    """Take a call to its place among those in flight, then through its transaction."""
    # 1. Lookup: which tool is meant.
    plan = table.plans.get(call.call_made.name)
    if plan is None or table.lookups:
        plan = yield from look_up(call, table, plan)
    call.plan = plan
    tool = plan.tool
    if tool.handler is None and not plan.executes:
        raise without_handler(tool.name)

    # 2. Parse: arguments become typed params.
    call.stage = PARSE
    if table.parses or table.parse_wrappers:
        yield from ask_parsers(call, table, shown_call(call))
    else:
        parse(call, call.call_made)

    # 3. Deadline. From here on the call has a branch of the session and a context.
    call.stage = DEADLINE
    if call.closed is not None or not call.is_alone:
        call.check_limits()
    call.open()
    if call.batch is not None:
        yield call.batch_step(ADMITTED)

    # 4. Check: every policy, on a frozen branch; a person where one asks.
    if plan.checks or plan.confirms or call.resumption is not None:
        call.stage = CHECK
        if (objections := check(call, table, plan)) is not None:
            yield from objections

    # 5. Reserve: a place among the calls in flight, then a branch that can be written.
    call.stage = RESERVE
    admit(call)
    if call.batch is not None or tool.concurrency == "serial":
        yield from wait_for_place(call, plan)
    call.branch.begin()
    if call.batch is not None:
        call.passed(FORKED if plan.executes else CLAIMED)

    # 6 to 11, once more after a conflict, and anew after a person has edited the arguments.
    edits = 0
    while True:
        try:
            return (yield from attempt(call, table, call.plan))
        except ConflictError:
            if call.reruns or not tool.contained or call.stage not in CONFLICTING:
                raise
            yield from redo_after_conflict(call, plan)
        except Edited as edit:
            edits += 1
            refuse_unsettled(call, edits)
            yield from start_over(call, table, edit.call)


def attempt(call: CallRun, table: Table, plan: Plan) -> Staged:  # noqa: C901, PLR0912 - read from top to bottom
    """Run the handler on the call's branch, and commit what it did: all of it, or nothing."""
    # 6. Snapshot: plugins join the transaction.
    if plan.snapshots:
        call.stage = Stage.SNAPSHOT
        yield from take_snapshots(call, plan)

    # 7. Execute: a plugin's answer, or the handler. The session hears of the value.
    call.stage = EXECUTE
    result: Any
    if plan.executes or table.execute_wrappers:
        result = yield from ask_and_run(call, table, plan)
    else:
        result = run_handler(call, plan)
        if result.__class__ is GeneratorType:
            waiting: Staged = result
            result = yield from waiting
    if not result.success:
        raise HandlerFailed(result)
    call.result = result
    if plan.executes or table.retelling:
        yield from take_in_answer(call, table, plan)
    elif result.value is not None:
        call.branch.dispatch(result.value)

    # 8. Render: JSON once, text once.
    call.stage = RENDER
    render(call, table, plan)
    if call.closed is not None or not call.is_alone:
        call.check_limits()

    # 9. Validate: the call takes its turn to commit; what it read is unchanged.
    if plan.shows_diff:
        plan = yield from show_and_validate(call, plan)
    else:
        if not call.take_free_turn():
            yield from wait_for_turn(call)
        call.stage = VALIDATE
        CURRENT.set((call,))
        call.branch.validate()

    # 10. On result: policies hear of the success, and may veto it.
    if plan.on_results or plan.shows_diff:
        call.stage = ON_RESULT
        if (answers := tell_result(call, plan)) is not None:
            yield from answers

    # 11. Commit: prepare all that takes part, then commit all of it.
    call.stage = PREPARE
    if (participants := commit(call, table)) is not None:
        yield from participants


# --- Where a call waits for others -----------------------------------------------------------


def wait_for_place(call: CallRun, plan: Plan) -> Staged:
    """Wait until the batch is admitted, and until the one place of a serial tool is free."""
    if call.batch is not None:
        yield WaitFor(call.batch.after_all(ADMITTED), call.limit_without_timeout())
    if plan.tool.concurrency == "serial":
        call.passed(FORKED if plan.executes else CLAIMED)
        yield from take_serial(call, plan)
        yield from look_again(call)


def take_in_answer(call: CallRun, table: Table, plan: Plan) -> Staged:
    """Apply a plugin's answer, or the changes of a recorded call, to the session."""
    if call.answer.__class__ is Replay:
        # The session may hold these changes by now, where the recorded call ran beside this one.
        if not call.take_free_turn():
            yield from wait_for_turn(call)
        call.branch.validate()
    tell_session(call, table, plan)

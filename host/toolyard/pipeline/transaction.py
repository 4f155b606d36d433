"""Running the handler on a branch, and keeping what it did: all of it, or nothing."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

from toolyard.pipeline.asking import SLOW, ask, settle, waits, warn_of_slow
from toolyard.pipeline.call_run import CallRun
from toolyard.pipeline.checking import check_again, params_for, refuse_unsettled
from toolyard.pipeline.committing import commit, commits_at_once
from toolyard.pipeline.handling import ask_and_run, run_handler
from toolyard.pipeline.marks import (
    ADMITTED,
    CLAIMED,
    ENDED,
    EXECUTE,
    FORKED,
    ON_RESULT,
    PREPARE,
    RENDER,
    VALIDATE,
)
from toolyard.pipeline.plan import Plan, Table
from toolyard.pipeline.plugin_faults import check_participant, hook_failed, name_who_raised
from toolyard.pipeline.refusals import (
    HandlerFailed,
    Refusal,
    says_what_happened,
    wrote_unshown,
)
from toolyard.pipeline.rendering import render
from toolyard.pipeline.reviewing import (
    Edited,
    is_as_shown,
    refuse_unshown,
    review,
    start_over,
)
from toolyard.pipeline.steps import Staged, WaitFor
from toolyard.pipeline.telling import tell_session
from toolyard.pipeline.undoing import take_part_once_there, undo
from toolyard_hookspecs import ConflictError, Replay, ResourceBusyError, Stage, Status, ToolResult

CONFLICTING = frozenset({EXECUTE, VALIDATE, ON_RESULT, PREPARE})
"""Where a conflict shows: a resource may notice it before the commit, at the next access."""


def transact(run: CallRun, table: Table) -> Staged:
    """Run the call on its branch and commit it; a contained one once more after a conflict."""
    plan = run.plan
    assert plan is not None  # noqa: S101 - looked up before
    if run.batch is not None:
        yield WaitFor(run.batch.after_all(ADMITTED), run.limit_without_timeout())
    # Plugins that are not asked at all keep no later call of the batch waiting.
    forked = FORKED if plan.executes else CLAIMED
    if plan.tool.concurrency == "serial":
        run.passed(forked)
        yield from _take_serial(run, plan)
        yield from _look_again(run)
    run.branch.begin()
    if run.batch is not None:
        run.passed(forked)
    edits = 0
    while True:
        try:
            yield from _run_once(run, table, plan)
        except ConflictError:
            if run.reruns or not plan.tool.contained or run.stage not in CONFLICTING:
                raise
            yield from _start_again(run, plan)
        except Edited as edit:
            edits += 1
            refuse_unsettled(run, edits)
            yield from start_over(run, table, edit.call)
        else:
            return


def _start_again(run: CallRun, plan: Plan) -> Staged:
    """Put everything back and fork at the commit turn, at which nothing can conflict again."""
    run.reruns += 1
    yield from undo(run)
    yield from _take_turn(run)
    run.renew()
    run.scope.fail_fast = True
    if not plan.shares_params:
        run.params = plan.tool.params_codec.copy(run.arguments)
    if plan.checks:
        yield from check_again(run)


def _look_again(run: CallRun) -> Staged:
    """Let go of what the checks saw of the resources before others were waited for."""
    if run.scope.participants():
        yield from undo(run)
        run.renew()
        yield from check_again(run)


def _take_serial(run: CallRun, plan: Plan) -> Staged:
    limit = run.limit_without_timeout()
    # Waiting for other calls does not count against the timeouts of those that made this one.
    run.control.pause_timeout()
    try:
        batch = run.root.batch
        if batch is not None:
            yield WaitFor(batch.before(ENDED, run.root.index), limit)
        ticket = run.serial_ticket = run.executor.engine.serial(plan.tool, run)
        ticket.request(fail_fast=run.scope.fail_fast)
        yield WaitFor(ticket, limit)
        ticket.require()
    except ResourceBusyError as error:
        raise Refusal(Status.ERROR, f"{run.name} cannot run now: {error}") from error
    finally:
        run.control.resume_timeout()


def _run_once(run: CallRun, table: Table, plan: Plan) -> Staged:
    if plan.snapshots:
        run.stage = Stage.SNAPSHOT
        yield from _take_snapshots(run, plan)
    run.stage = EXECUTE
    if plan.executes or table.execute_wrappers:
        result = yield from ask_and_run(run, table, plan)
    else:
        result = yield from run_handler(run, plan, None)
    if run.answer.__class__ is Replay:
        # The session may hold by now what the recorded call changed, where that ran beside this.
        yield from _take_turn(run)
        run.branch.validate()
    _take_in(run, table, plan, result)
    run.check_limits()
    if plan.shows_diff:
        plan = yield from _show_and_validate(run, plan)
    else:
        # What `_take_turn` does: a generator less on every call's path.
        if run.batch is not None and run.turns is None:
            yield from _wait_for_earlier_calls(run)
        if (turn := run.take_turn()) is not None:
            yield WaitFor(turn, run.limit_without_timeout())
        run.stage = VALIDATE
        run.branch.validate()
    if plan.on_results or plan.shows_diff:
        run.stage = ON_RESULT
        yield from _tell_result(run, plan)
    run.stage = PREPARE
    rehearsal = run.executor.rehearsal
    if rehearsal is not None and run.parent is None:
        yield from rehearsal.join(run, table)
    elif not commits_at_once(run):
        yield from commit(run)


def _show_and_validate(run: CallRun, plan: Plan) -> Staged:
    """Show what the call would change, until that is what it would be kept as; return the plan."""
    rounds = 0
    while True:
        yield from review(run)
        yield from _take_turn(run)
        run.stage = VALIDATE
        run.branch.validate()
        if (yield from is_as_shown(run)):
            # Policies may have come while a person was asked.
            return run.plan or plan
        rounds += 1
        refuse_unshown(run, rounds)


def _take_in(run: CallRun, table: Table, plan: Plan, result: ToolResult[Any]) -> None:
    """Let the session have what the result changes in it, and render the result."""
    if not result.success:
        raise HandlerFailed(result)
    run.result = result
    if plan.executes or table.retelling:
        tell_session(run, table, plan)
    elif result.value is not None:
        run.branch.dispatch(result.value)
    run.stage = RENDER
    render(run, table, plan)


def _take_snapshots(run: CallRun, plan: Plan) -> Staged:
    for each in plan.snapshots:
        try:
            participant = ask(run, each, run.context, plan.tool)
            if waits(participant):
                yield from settle(run, participant, via=partial(take_part_once_there, run, each))
                continue
        except Exception as error:
            if says_what_happened(error):
                raise
            raise hook_failed(each, error) from error
        if participant is not None:
            check_participant(each, participant)
            run.participants.append(participant)


def _tell_result(run: CallRun, plan: Plan) -> Staged:
    tool, result, context = plan.tool, run.result, run.context
    watched = run.on_loop
    for rule in plan.on_results:
        params = run.params if plan.shares_params else params_for(run, rule)
        started = perf_counter() if watched else 0.0
        tell_rule: Any = rule.on_result
        try:
            answer = tell_rule(tool, params, result, context=context)
            if watched and perf_counter() - started > SLOW:
                warn_of_slow(rule.title, started)
            if answer is not None:
                yield from settle(run, answer)
        except Exception as error:
            name_who_raised(error, rule.title, "on_result")
            raise
    if plan.shows_diff and not (yield from is_as_shown(run)):
        raise wrote_unshown(run.name)


def _take_turn(run: CallRun) -> Staged:
    if run.batch is not None and run.turns is None:
        yield from _wait_for_earlier_calls(run)
    if (turn := run.take_turn()) is not None:
        yield WaitFor(turn, run.limit_without_timeout())


def _wait_for_earlier_calls(run: CallRun) -> Staged:
    batch = run.batch
    assert batch is not None  # noqa: S101 - asked by the caller
    for gate in (batch.after_all(FORKED), batch.before(ENDED, run.index)):
        if not gate.granted:
            yield WaitFor(gate, run.limit_without_timeout())

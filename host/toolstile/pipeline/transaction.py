"""Running the handler on a branch, and keeping what it did: all of it, or nothing."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

from toolstile.pipeline.asking import SLOW, ask, settle, waits, warn_of_slow
from toolstile.pipeline.call_run import CallRun
from toolstile.pipeline.checking import check_again, params_for
from toolstile.pipeline.marks import (
    ENDED,
    FORKED,
    VALIDATE,
)
from toolstile.pipeline.plan import Plan
from toolstile.pipeline.plugin_faults import check_participant, hook_failed, name_who_raised
from toolstile.pipeline.refusals import (
    Refusal,
    says_what_happened,
    wrote_unshown,
)
from toolstile.pipeline.reviewing import (
    is_as_shown,
    refuse_unshown,
    review,
)
from toolstile.pipeline.steps import Staged, WaitFor
from toolstile.pipeline.undoing import take_part_once_there, undo
from toolstile.policies.rules import Rule
from toolstile.resources.self_waits import CURRENT
from toolstile_hookspecs import ResourceBusyError, Status


def redo_after_conflict(run: CallRun, plan: Plan) -> Staged:
    """Put everything back and fork at the commit turn, at which nothing can conflict again."""
    run.reruns += 1
    yield from undo(run)
    if not run.take_free_turn():
        yield from wait_for_turn(run)
    run.renew()
    run.scope.fail_fast = True
    if not plan.shares_params:
        run.params = plan.tool.params_codec.copy(run.arguments)
    if plan.checks:
        yield from check_again(run)


def look_again(run: CallRun) -> Staged:
    """Let go of what the checks saw of the resources before others were waited for."""
    if run.scope.participants():
        yield from undo(run)
        run.renew()
        yield from check_again(run)


def take_serial(run: CallRun, plan: Plan) -> Staged:
    """Wait for the one place of a serial tool.

    Raises:
        Refusal: When it is not to be had.
    """
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


def show_and_validate(run: CallRun, plan: Plan) -> Staged:
    """Show what the call would change, until that is what it would be kept as; return the plan."""
    rounds = 0
    while True:
        yield from review(run)
        if not run.take_free_turn():
            yield from wait_for_turn(run)
        run.stage = VALIDATE
        CURRENT.set((run,))
        run.branch.validate()
        if (yield from is_as_shown(run)):
            # Policies may have come while a person was asked.
            return run.plan or plan
        rounds += 1
        refuse_unshown(run, rounds)


def take_snapshots(run: CallRun, plan: Plan) -> Staged:
    """Let plugins take part in the call's transaction."""
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


def tell_result(run: CallRun, plan: Plan) -> Staged | None:
    """Let the policies hear of the success; return what is yet to be waited for, if anything."""
    for place, rule in enumerate(plan.on_results):
        if (answer := _tell(run, plan, rule)) is not None:
            return _tell_rest(run, plan, place, answer)
    return _compare_with_shown(run) if plan.shows_diff else None


def _tell(run: CallRun, plan: Plan, rule: Rule) -> Any:
    params = run.params if plan.shares_params else params_for(run, rule)
    tell_rule: Any = rule.on_result
    watched = run.on_loop
    started = perf_counter() if watched else 0.0
    try:
        answer = tell_rule(plan.tool, params, run.result, context=run.context)
        if watched and perf_counter() - started > SLOW:
            warn_of_slow(rule.title, started)
    except Exception as error:
        name_who_raised(error, rule.title, "on_result")
        raise
    return answer


def _tell_rest(run: CallRun, plan: Plan, place: int, answer: Any) -> Staged:
    for rule in plan.on_results[place:]:
        if answer is None:
            answer = _tell(run, plan, rule)
        try:
            yield from settle(run, answer)
        except Exception as error:
            name_who_raised(error, rule.title, "on_result")
            raise
        answer = None
    if plan.shows_diff:
        yield from _compare_with_shown(run)


def _compare_with_shown(run: CallRun) -> Staged:
    if not (yield from is_as_shown(run)):
        raise wrote_unshown(run.name)


def wait_for_turn(run: CallRun) -> Staged:
    """Wait for the turn to commit, which is another's."""
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

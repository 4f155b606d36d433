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
from functools import partial
from time import perf_counter
from types import GeneratorType
from typing import Any, Final

from toolstile.drivers.commands import Staged, Step, WaitFor
from toolstile.pipeline.batch import Milestone
from toolstile.pipeline.call import (
    CHECK,
    DEADLINE,
    EXECUTE,
    ON_RESULT,
    PARSE,
    PREPARE,
    RENDER,
    RESERVE,
    VALIDATE,
    ActiveCall,
)
from toolstile.pipeline.check import admit, check, check_again, params_copy_for, refuse_unsettled
from toolstile.pipeline.commit import commit, take_part_once_there, undo
from toolstile.pipeline.event import publish_surely, roll_back
from toolstile.pipeline.execute import ask_and_run, run_handler
from toolstile.pipeline.failures import (
    CallRejected,
    HandlerFailed,
    is_call_outcome,
    without_handler,
    wrote_unshown,
)
from toolstile.pipeline.hook_calls import (
    SLOW,
    add_origin_note,
    ask,
    check_participant,
    hook_failed,
    settle,
    waits,
    warn_of_slow,
)
from toolstile.pipeline.lookup import look_up
from toolstile.pipeline.parse import ask_parsers, parse, shown_call
from toolstile.pipeline.plan import DispatchTable, ToolPlan
from toolstile.pipeline.render import render
from toolstile.pipeline.review import (
    ArgumentsEdited,
    is_as_shown,
    refuse_unshown,
    review,
    start_over,
)
from toolstile.pipeline.tracing import Entered, enter_traces, leave_traces
from toolstile.policies.rules import Rule
from toolstile.resources.exclusive import CURRENT
from toolstile.state.replay import named_in
from toolstile_hookspecs import (
    CallRefused,
    ConflictError,
    Outcome,
    Replay,
    ResourceBusyError,
    SnapshotError,
    Stage,
    StateError,
    Status,
)

# --- Snapshot and validate


def redo_after_conflict(run: ActiveCall, plan: ToolPlan) -> Staged:
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


def look_again(run: ActiveCall) -> Staged:
    """Let go of what the checks saw of the resources before others were waited for."""
    if run.scope.participants():
        yield from undo(run)
        run.renew()
        yield from check_again(run)


def take_serial(run: ActiveCall, plan: ToolPlan) -> Staged:
    """Wait for the one place of a serial tool.

    Raises:
        CallRejected: When it is not to be had.
    """
    limit = run.limit_without_timeout()
    # Waiting for other calls does not count against the timeouts of those that made this one.
    run.control.pause_timeout()
    try:
        batch = run.root.batch
        if batch is not None:
            yield WaitFor(batch.before(Milestone.ENDED, run.root.index), limit)
        ticket = run.serial_ticket = run.executor.engine.serial(plan.tool, run.control)
        ticket.request(fail_fast=run.scope.fail_fast)
        yield WaitFor(ticket, limit)
        ticket.require()
    except ResourceBusyError as error:
        raise CallRejected(Status.ERROR, f"{run.name} cannot run now: {error}") from error
    finally:
        run.control.resume_timeout()


def show_and_validate(run: ActiveCall, plan: ToolPlan) -> Staged:
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


def take_snapshots(run: ActiveCall, plan: ToolPlan) -> Staged:
    """Let plugins take part in the call's transaction."""
    for each in plan.snapshots:
        try:
            participant = ask(run, each, run.context, plan.tool)
            if waits(participant):
                yield from settle(run, participant, via=partial(take_part_once_there, run, each))
                continue
        except Exception as error:
            if is_call_outcome(error):
                raise
            raise hook_failed(each, error) from error
        if participant is not None:
            check_participant(each, participant)
            run.participants.append(participant)


def tell_result(run: ActiveCall, plan: ToolPlan) -> Staged | None:
    """Let the policies hear of the success; return what is yet to be waited for, if anything."""
    for place, rule in enumerate(plan.on_results):
        if (answer := _tell(run, plan, rule)) is not None:
            return _tell_rest(run, plan, place, answer)
    return _compare_with_shown(run) if plan.shows_diff else None


def _tell(run: ActiveCall, plan: ToolPlan, rule: Rule) -> Any:
    params = run.params if plan.shares_params else params_copy_for(run, rule)
    tell_rule: Any = rule.on_result
    watched = run.on_loop
    started = perf_counter() if watched else 0.0
    try:
        answer = tell_rule(plan.tool, params, run.result, context=run.context)
        if watched and perf_counter() - started > SLOW:
            warn_of_slow(rule.title, started)
    except Exception as error:
        add_origin_note(error, rule.title, "on_result")
        raise
    return answer


def _tell_rest(run: ActiveCall, plan: ToolPlan, place: int, answer: Any) -> Staged:
    for rule in plan.on_results[place:]:
        if answer is None:
            answer = _tell(run, plan, rule)
        try:
            yield from settle(run, answer)
        except Exception as error:
            add_origin_note(error, rule.title, "on_result")
            raise
        answer = None
    if plan.shows_diff:
        yield from _compare_with_shown(run)


def _compare_with_shown(run: ActiveCall) -> Staged:
    if not (yield from is_as_shown(run)):
        raise wrote_unshown(run.name)


def wait_for_turn(run: ActiveCall) -> Staged:
    """Wait for the turn to commit, which is another's."""
    if run.batch is not None and run.turns is None:
        yield from _wait_for_earlier_calls(run)
    if (turn := run.acquire_commit_turn()) is not None:
        yield WaitFor(turn, run.limit_without_timeout())


def _wait_for_earlier_calls(run: ActiveCall) -> Staged:
    batch = run.batch
    assert batch is not None  # noqa: S101 - asked by the caller
    for gate in (batch.after_all(Milestone.FORKED), batch.before(Milestone.ENDED, run.index)):
        if not gate.granted:
            yield WaitFor(gate, run.limit_without_timeout())


# --- Apply the result


def apply_result(run: ActiveCall, table: DispatchTable, plan: ToolPlan) -> None:
    """Let the session have what the result changes, where plugins may answer or are told of it."""
    if run.answer.__class__ is Replay:
        _apply_changes(run, run.answer)
    elif run.result.value is not None:
        run.branch.dispatch(run.result.value)
    if table.retelling or plan.tool.idempotency is not None:
        _note_changes(run)


def _note_changes(run: ActiveCall) -> None:
    """Keep what the call has changed in the session so far."""
    try:
        run.session_changes = run.branch.changes()
    except SnapshotError as error:
        run.session_changes = error


def _apply_changes(run: ActiveCall, replay: Replay) -> None:
    """Let the session have what the earlier call changed, unless it has."""
    changes, reason = replay.changes, replay.unportable
    effect_id = replay.effect_id
    if changes is None and reason is None:
        return
    if effect_id is not None and run.branch.has_applied(effect_id):
        return
    if changes is not None:
        try:
            run.branch.redo(changes, kinds=named_in(changes))
        except StateError as error:
            reason = str(error)
        else:
            if effect_id is not None:
                run.branch.mark_applied(effect_id)
            return
    raise CallRefused(
        f"{run.name} has done this already, in another session; what it changed there cannot "
        f"be carried over to this one: {str(reason).rstrip('.')}. It was not run again. This "
        "requires human intervention."
    )


# --- The life of a call


CONFLICTING: Final = frozenset({EXECUTE, VALIDATE, ON_RESULT, PREPARE})
"""Stages at which a conflict can show: a resource may notice it before the commit."""


def life_of(call: ActiveCall) -> Generator[Step, Any, Outcome]:
    """Take a call through its stages. One event is published, whatever becomes of the call.

    Returns:
        The outcome.

    Raises:
        BaseException: What is not the call's own; see `refusals.classify_failure`.
    """
    traces: Entered = []
    call.around = CURRENT.get()
    try:
        try:
            CURRENT.set(call)
            table = call.executor.table()
            try:
                if table.traces:
                    enter_traces(table, call, traces)
                yield from pass_stages(call, table)
            except BaseException as error:  # noqa: BLE001 - every end is an outcome first
                yield from roll_back(call, table, error)
            publish_surely(call, table)
        finally:
            call.end()
    finally:
        # Where an interruption came within: others must not wait for this call for good.
        if not call.ended:
            call.end()
        # The collector may close it elsewhere, where the mark is another call's.
        if CURRENT.get() in (call, (call,)):
            CURRENT.set(call.around)
        call.around = None
        if traces:
            leave_traces(traces, call)
    if call.raises is not None:
        raise call.raises
    return call.outcome


def pass_stages(call: ActiveCall, table: DispatchTable) -> Staged:  # noqa: C901, PLR0912 - read from top to bottom
    """Take a call to its place among those in flight, then through its transaction."""
    # 1. Lookup: which tool is meant.
    plan = table.plans.get(call.call_made.name)
    if plan is None or table.lookups:
        plan = yield from look_up(call, table, plan)
    call.plan = plan
    tool = plan.tool
    if plan.invoke is None and not plan.executes:
        raise without_handler(tool)

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
        yield call.batch_step(Milestone.ADMITTED)

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
        call.passed(Milestone.FORKED if plan.executes else Milestone.CLAIMED)

    # 6 to 11, once more after a conflict, and anew after a person has edited the arguments.
    edits = 0
    while True:
        try:
            return (yield from attempt(call, table, call.plan))
        except ConflictError:
            if call.reruns or not tool.contained or call.stage not in CONFLICTING:
                raise
            yield from redo_after_conflict(call, plan)
        except ArgumentsEdited as edit:
            edits += 1
            refuse_unsettled(call, edits)
            yield from start_over(call, table, edit.call)


def attempt(call: ActiveCall, table: DispatchTable, plan: ToolPlan) -> Staged:  # noqa: C901, PLR0912 - read from top to bottom
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


def wait_for_place(call: ActiveCall, plan: ToolPlan) -> Staged:
    """Wait until the batch is admitted, and until the one place of a serial tool is free."""
    if call.batch is not None:
        yield WaitFor(call.batch.after_all(Milestone.ADMITTED), call.limit_without_timeout())
    if plan.tool.concurrency == "serial":
        call.passed(Milestone.FORKED if plan.executes else Milestone.CLAIMED)
        yield from take_serial(call, plan)
        yield from look_again(call)


def take_in_answer(call: ActiveCall, table: DispatchTable, plan: ToolPlan) -> Staged:
    """Apply a plugin's answer, or the changes of a recorded call, to the session."""
    if call.answer.__class__ is Replay:
        # The session may hold these changes by now, where the recorded call ran beside this one.
        if not call.take_free_turn():
            yield from wait_for_turn(call)
        call.branch.validate()
    apply_result(call, table, plan)

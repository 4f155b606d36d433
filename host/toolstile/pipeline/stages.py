"""The life of a call, from top to bottom, written once.

`life_of` is a generator that never waits by itself. To wait for something, it
yields a `Step`; a driver, sync or async, carries the step out and sends the answer back.

A stage is a plain function: it does its work and returns the result. Only a stage that must
wait returns a generator instead, and the pipeline delegates to that. So a call that never has to
wait runs through plain functions, and there is one way through for all calls.

The needs of a tool are known before its first call: `plan` (of the tool) and `table` (of the
executor) hold the policies and hooks that concern it, and an empty tuple costs its calls one test.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from toolstile.drivers.job import Staged, Step, WaitFor
from toolstile.drivers.limit import ENDLESS
from toolstile.pipeline.batch import Milestone
from toolstile.pipeline.call import (
    CHECK,
    COMMIT,
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
from toolstile.pipeline.check import (
    check,
    check_again,
    check_changes,
    refuse_endless,
    reserve,
    rules_to_reserve,
    tell_result,
)
from toolstile.pipeline.commit import (
    commit_with_participants,
    join,
    refuse_lone_deciders,
    take_part_later,
    tell_logs,
    undo,
)
from toolstile.pipeline.event import publish_once, roll_back
from toolstile.pipeline.execute import (
    apply_or_run,
    apply_result,
    ask_and_run,
    run_elsewhere,
    run_here,
)
from toolstile.pipeline.failures import (
    CallRejected,
    HandlerFailed,
    is_call_outcome,
    refuse_without_handler,
)
from toolstile.pipeline.hook_calls import (
    ask,
    check_participant,
    hook_failed,
    off_loop,
    on_worker,
    perform,
    settle,
    waits,
)
from toolstile.pipeline.parse import ask_parsers, look_up, parse, shown_call
from toolstile.pipeline.plan import DispatchTable, ToolPlan
from toolstile.pipeline.render import render
from toolstile.pipeline.review import (
    UNSHOWN,
    ArgumentsEdited,
    is_as_shown,
    refuse_changed,
    review,
    start_over,
)
from toolstile.pipeline.tracing import Entered, enter_traces, leave_traces
from toolstile.resources.exclusive import CURRENT
from toolstile_hookspecs import (
    ConflictError,
    Outcome,
    Replay,
    ResourceBusyError,
    Stage,
    StateError,
    Status,
)
from toolstile_hookspecs.support.text import for_model

# --- The life of a call


CONFLICTING: Final = frozenset({EXECUTE, VALIDATE, ON_RESULT, PREPARE})
"""Stages at which a conflict can show: a resource may notice it before the commit."""


def life_of(call: ActiveCall) -> Generator[Step, Any, Outcome]:  # noqa: C901 - read from top to bottom
    """Take a call through its stages. One event is published, whatever becomes of the call.

    Returns:
        The outcome.

    Raises:
        BaseException: When it is not the call's failure; see `failures.classify_failure`.
    """
    traces: Entered = []
    executor = call.executor
    journal, lifespans = executor.journal, executor.engine.lifespans
    call.around = CURRENT.get()
    try:
        try:
            CURRENT.set(call)
            # Before the table, whose hooks hold states that outlast the call.
            lifespans.calls.add(call)
            table = executor.table()
            try:
                if table.traces:
                    enter_traces(table, call, traces)
                if journal is not None:
                    yield from catch_up(call)
                yield from pass_stages(call, table)
            except BaseException as error:  # noqa: BLE001 - every end is an outcome first
                # Where the loop goes meanwhile, all is put back first, and the call raises it.
                with suppress(GeneratorExit):
                    yield from roll_back(call, table, error)
            publish_once(call, table)
            if journal is not None:
                yield from tell_logs(call)
            if call.on_loop and call.opened and call.scope.has_to_close:
                call.release_commit_turn()
                yield on_worker(call, call.scope.close)
        finally:
            call.end()
    finally:
        # Where an interruption came within: others must not wait for this call for good.
        if not call.ended:
            call.end()
        # The collector may close this in another thread, where the mark is another call's.
        mark = CURRENT.get()
        if mark is call or (mark.__class__ is tuple and mark[0] is call):
            CURRENT.set(call.around)
        call.around = None
        if traces:
            leave_traces(traces, call)
        lifespans.calls.discard(call)
        if lifespans.leaving:
            lifespans.call_ended(call)
    if call.raises is not None:
        raise call.raises
    return call.outcome


def pass_stages(call: ActiveCall, table: DispatchTable) -> Staged:  # noqa: C901, PLR0912 - read from top to bottom
    """Take a call to its place among those in flight, then through its transaction."""
    # 1. Lookup: which tool is meant.
    plan = table.plans.get(call.call_made.name)
    if plan is None or table.lookups or call.parent is not None:
        plan = yield from look_up(call, table, plan)
    call.plan = plan
    if plan.invoke is None or call.using is not None:
        refuse_without_handler(plan.tool, plan.executes, call.using)

    # 2. Parse: arguments become typed params.
    call.stage = PARSE
    if table.parses or table.parse_wrappers:
        yield from ask_parsers(call, table, shown_call(call))
    else:
        parse(call, plan.tool, call.call_made)

    # 3. Deadline: a call that is too late ends here; others get a branch and a context.
    call.stage = DEADLINE
    if call.closed is not None or call.is_bounded:
        call.check_limits()
    call.fork()
    if call.batch is not None:
        order = call.batch.card or call.batch
        yield WaitFor(order.before(Milestone.ADMITTED, call.index), call.limit_without_timeout())

    # 4. Check: every policy, on a frozen branch; a person if a policy asks.
    if plan.checks or plan.confirms or call.resumption is not None:
        call.stage = CHECK
        if (objections := check(call, table, plan)) is not None:
            yield from objections

    # 5. Reserve: a place among the calls in flight, then a branch that can be written.
    call.stage = RESERVE
    if plan.reserves and (rules := rules_to_reserve(call, plan.reserves)):
        yield from reserve(call, rules)
    else:
        # Marked first: interrupted between the two, `end` takes it out all the same.
        call.admitted = True
        call.executor.runtime.calls[id(call)] = call
    if call.batch is not None or plan.tool.concurrency == "serial":
        yield from wait_for_place(call, plan)
    call.branch.begin()
    if call.batch is not None:
        call.passed(Milestone.FORKED if plan.executes else Milestone.CLAIMED)

    # 6 to 11; again after a conflict, and after a person has edited the arguments.
    edits = 0
    while True:
        try:
            return (yield from attempt(call, table, call.plan))
        except ConflictError:
            # Only once, and only where all that the tool does can be undone.
            if call.reruns or not plan.tool.contained or call.stage not in CONFLICTING:
                raise
            yield from redo_after_conflict(call, call.plan)
        except ArgumentsEdited as edit:
            edits += 1
            refuse_endless(call, edits)
            yield from start_over(call, table, edit.call)


def attempt(call: ActiveCall, table: DispatchTable, plan: ToolPlan) -> Staged:  # noqa: C901, PLR0912 - read from top to bottom
    """Run the handler on the call's branch, and commit its changes: all of them, or none."""
    # 6. Snapshot: plugins join the transaction.
    if plan.snapshots:
        yield from take_snapshots(call, plan)

    # 7. Execute: a plugin's answer, or the handler. The session hears of the value.
    if (gate := call.executor.engine.gate).numbers[0] != gate.clear or call.stops is not gate.known:
        gate.check(call)
    call.stage = EXECUTE
    if plan.executes or table.execute_wrappers:
        result = yield from ask_and_run(call, table, plan)
    elif call.resumption is not None:
        result = yield from apply_or_run(call, plan)
    elif plan.runs_here and not (call.is_bounded or call.on_loop or call.batch is not None):
        call.limit = ENDLESS
        result = run_here(call, plan, plan.invoke)
    else:
        result = yield from run_elsewhere(call, plan)
    if not result.success:
        raise HandlerFailed(result)
    call.result = result
    if plan.executes or table.retelling or call.answer is not None:
        yield from take_in_answer(call, table, plan)
    elif result.value is not None:
        call.branch.dispatch(result.value)

    # 8. Render: JSON once, text once.
    call.stage = RENDER
    render(call, table, plan)
    if call.closed is not None or call.is_bounded:
        call.check_limits()

    # 9. Validate: the call takes its turn to commit; it conflicts if state it read has changed.
    shows_diff = table.describes or plan.shows_diff or bool(call.resumption and call.asks)
    if call.scope._parts and call.parent is None:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - spares each call a call
        shows_diff |= yield from check_changes(call, plan)
    if shows_diff:
        plan = yield from show_and_validate(call, plan)
    else:
        if call.batch is not None or call.acquire_commit_turn() is not None:
            yield from wait_for_turn(call)
        call.stage = VALIDATE
        # The call holds the turn now: a call that would wait for it below this one is refused.
        CURRENT.set((call,))
        if call.executor.journal is not None:
            yield from catch_up(call)
        call.branch.validate()

    # 10. On result: policies and plugins hear of the success, and may veto it.
    if plan.on_results or shows_diff:
        call.stage = ON_RESULT
        if (answers := tell_result(call, plan)) is not None:
            yield from answers
        if shows_diff:
            yield from refuse_changed(call)

    # 11. Commit: prepare all that takes part, then commit each; the status tells if one cannot.
    if (remaining := commit(call, table)) is not None:
        yield from remaining


def commit(call: ActiveCall, table: DispatchTable) -> Staged | None:
    """Commit at once where only the session takes part; else return the steps of the commit."""
    call.stage, executor = PREPARE, call.executor
    if executor.within is not None and call.parent is None:
        joining: Staged = executor.within.join(call, table)
        return joining
    if call.parent is not None:
        return join(call, call.parent)
    parts = call.scope._parts  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - spares each call a call
    # A stored session records nothing of a call that changed nothing, and used no approval up.
    records = executor.journal is not None and (call.branch.has_changed or call.resumption)
    alone = executor.keeper is None and not records
    if parts or call.participants or call.children or not alone:
        return commit_with_participants(call)
    branch = call.branch
    try:
        if branch._cells or branch._overlay:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - else nothing is committed
            executor.engine.gate.enter(call)
        branch.commit()
    except BaseException:
        # A subscriber of the changes may interrupt, which takes nothing back any more.
        call.committed = branch.kept
        raise
    finally:
        if call.mark:
            executor.engine.gate.leave(call)
    call.stage = COMMIT
    call.committed = True
    return None


# --- Where a call waits for others, or begins again


def catch_up(call: ActiveCall) -> Staged:
    """Bring the session to where other hosts have moved it.

    Raises:
        CallRejected: When its store cannot say.
    """
    journal = call.executor.journal
    if journal is None or call.parent is not None:
        return
    try:
        if journal.is_behind:
            yield from off_loop(call, journal.catch_up)
    except StateError as error:
        told = f"{call.name} cannot run: {for_model(str(error))} Retry later."
        raise CallRejected(Status.ERROR, told, for_operator=str(error)) from error


def wait_for_place(call: ActiveCall, plan: ToolPlan) -> Staged:
    """Wait until the batch is admitted, and until the one place of a serial tool is free."""
    if call.batch is not None:
        call.passed(Milestone.ADMITTED)
        yield WaitFor(call.batch.after_all(Milestone.ADMITTED), call.limit_without_timeout())
        if call.batch.card is not None:
            yield from call.batch.card.take_in(call)
    if plan.tool.concurrency == "serial":
        call.passed(Milestone.FORKED if plan.executes else Milestone.CLAIMED)
        yield from take_serial(call, plan)
        yield from look_again(call)


def take_serial(call: ActiveCall, plan: ToolPlan) -> Staged:
    """Wait for the one place of a serial tool.

    Raises:
        CallRejected: When it is not to be had.
    """
    limit = call.limit_without_timeout()
    # Waiting for other calls does not count against the timeouts of the callers.
    with call.control.paused():
        batch = call.root.batch
        if batch is not None:
            yield WaitFor(batch.before(Milestone.ENDED, call.root.index), limit)
        # Known before it asks: an interruption may come when it has the place already.
        claim = call.serial_claim = call.executor.engine.serial(plan.tool, call.control)
        try:
            ticket = claim.request(fail_fast=call.scope.fail_fast)
            yield WaitFor(ticket, limit)
            if ticket.error is not None:
                raise ticket.error
        except ResourceBusyError as error:
            raise CallRejected(Status.ERROR, f"{call.name} cannot run now: {error}") from error


def look_again(call: ActiveCall) -> Staged:
    """Drop the resources that the checks saw before the call waited for others."""
    if call.scope.participants():
        yield from undo(call)
        call.renew()
        yield from check_again(call)


def take_snapshots(call: ActiveCall, plan: ToolPlan) -> Staged:
    """Let plugins take part in the call's transaction."""
    call.stage = Stage.SNAPSHOT
    for each in plan.snapshots:
        try:
            participant = ask(call, each, call.context, plan.tool)
            if waits(participant):
                yield from settle(call, participant, via=partial(take_part_later, call, each))
                continue
        except Exception as error:
            if is_call_outcome(error):
                raise
            raise hook_failed(each, error) from error
        if participant is not None:
            check_participant(each, participant)
            call.participants.append(participant)
    if call.executor.journal is not None:
        refuse_lone_deciders(call)


def take_in_answer(call: ActiveCall, table: DispatchTable, plan: ToolPlan) -> Staged:
    """Apply a plugin's answer, or the changes of a recorded call, to the session."""
    if call.answer.__class__ is Replay:
        # The session may hold these changes already, if the recorded call ran beside this one.
        if call.batch is not None or call.acquire_commit_turn() is not None:
            yield from wait_for_turn(call)
        yield from catch_up(call)
        call.branch.validate()
    apply_result(call, table, plan)


def show_and_validate(call: ActiveCall, plan: ToolPlan) -> Staged:
    """Show a person the diff, again if the session has changed meanwhile; return the plan."""
    rounds = 0
    while True:
        yield from review(call)
        if call.batch is not None or call.acquire_commit_turn() is not None:
            yield from wait_for_turn(call)
        call.stage = VALIDATE
        CURRENT.set((call,))
        yield from catch_up(call)
        call.branch.validate()
        if (yield from is_as_shown(call)):
            # Policies may have come while a person was asked.
            return call.plan or plan
        rounds += 1
        refuse_endless(call, rounds, UNSHOWN)


def wait_for_turn(call: ActiveCall) -> Staged:
    """Wait for the turn to commit, while it is another's."""
    if (batch := call.batch) is not None and call.turns is None:
        for gate in (batch.after_all(Milestone.FORKED), batch.before(Milestone.ENDED, call.index)):
            if not gate.granted:
                yield WaitFor(gate, call.limit_without_timeout())
    if (turn := call.acquire_commit_turn()) is not None:
        yield WaitFor(turn, call.limit_without_timeout())


def redo_after_conflict(call: ActiveCall, plan: ToolPlan) -> Staged:
    """Put everything back and fork at the commit turn, at which nothing can conflict again."""
    call.reruns += 1
    yield from undo(call)
    if call.batch is not None or call.acquire_commit_turn() is not None:
        yield from wait_for_turn(call)
    for held in call.scope.hold_for_rerun():
        yield from perform(call, held, "acquire", settle)
    yield from catch_up(call)
    call.renew()
    call.scope.fail_fast = True
    if not plan.shares_params:
        call.params = plan.tool.params_codec.copy(call.arguments)
    if plan.checks:
        yield from check_again(call)

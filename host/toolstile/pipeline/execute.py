"""Running the handler, or a plugin's answer in its place."""

from __future__ import annotations

import asyncio
from functools import partial
from types import CoroutineType
from typing import Any, cast

from toolstile.drivers.job import Run, Staged, WaitFor
from toolstile.drivers.limit import ENDLESS, Cancelled, Limit, TimedOut
from toolstile.pipeline.approval import approve, digest_of
from toolstile.pipeline.batch import Milestone
from toolstile.pipeline.call import BEGUN, RETURNED, ActiveCall
from toolstile.pipeline.check import params_copy_for
from toolstile.pipeline.failures import PAUSES, CallRejected, without_handler
from toolstile.pipeline.hook_calls import WrapperStack, ask, off_loop, settle_for, wrong_answer
from toolstile.pipeline.plan import DispatchTable, ToolPlan
from toolstile.pipeline.review import applied
from toolstile.state.replay import named_in
from toolstile_hookspecs import (
    CallRefused,
    ConflictError,
    EffectUnknownError,
    HandlerState,
    Replay,
    SnapshotError,
    StateError,
    Status,
    ToolResult,
)
from toolstile_hookspecs.calls import REPLAYED_EFFECT
from toolstile_hookspecs.support.callables import is_async_callable
from toolstile_hookspecs.support.network_errors import was_sent

_VALUES = frozenset({int, float, bool, str, dict, list})


def ask_and_run(call: ActiveCall, table: DispatchTable, plan: ToolPlan) -> Staged:
    """Return the result of whichever answers first: a plugin, or the handler."""
    if not table.execute_wrappers:
        result = yield from _answer(call, plan)
        return _read_result(call, plan, result) if call.replayed else result
    wrapped = WrapperStack()
    try:
        for each in table.execute_wrappers:
            wrapped.enter(each, plan.tool, params_copy_for(call, each), call.context)
        result = yield from _answer(call, plan)
    except BaseException as error:  # noqa: BLE001 - the wrappers see it first
        return _read_result(call, plan, wrapped.fail(error))
    return _read_result(call, plan, wrapped.leave(result))


def _answer(call: ActiveCall, plan: ToolPlan) -> Staged:
    if not call.claimed:
        call.answer = yield from _ask_executors(call, plan)
        call.claimed = True
    answer: Any = call.answer
    call.replayed = isinstance(answer, (ToolResult, Replay))
    if call.recalled and not call.replayed:
        raise CallRejected(
            Status.DENIED,
            f"{call.name} needs a person's approval: the earlier result that was to answer is "
            "gone. Retry it, to have it asked.",
        )
    if not call.replayed:
        is_here = plan.runs_here and not (call.is_bounded or call.on_loop or call.batch is not None)
        if is_here and not (answer or call.resumption or call.using):
            call.limit = ENDLESS
            answer = run_here(call, plan, plan.invoke)
        else:
            answer = yield from apply_or_run(call, plan, answer)
    elif answer.__class__ is Replay:
        if answer.effect_id is not None:
            call.set_attribute(REPLAYED_EFFECT, answer.effect_id)
        answer = answer.result
    return answer


def apply_or_run(call: ActiveCall, plan: ToolPlan, instead: Any = None) -> Staged:
    """Return the result of a change set that a person approved, else of the handler.

    Raises:
        ConflictError: When the state below the change set has moved: the call runs again, and a
            person is asked again.
    """
    resumption = call.resumption
    changes = None if resumption is None else resumption.changes
    if resumption is None or changes is None or changes.tool != call.tool.name:
        return (yield from run_elsewhere(call, plan, instead))
    if call.reruns:
        # A person who has denied the shown change set is not asked about a newer one.
        if resumption.denies(digest_of(call, changes.diff)):
            yield from approve(call, call.asks, changes.diff)
        return (yield from run_elsewhere(call, plan, instead))
    return (yield from off_loop(call, partial(applied, call, changes)))


def _ask_executors(call: ActiveCall, plan: ToolPlan) -> Staged:
    root = call.root
    if root.batch is not None:
        # Nested calls too: an earlier call would wait for their claims.
        gate = root.batch.before(Milestone.CLAIMED, root.index)
        # Waiting for other calls does not count against the timeouts of the callers.
        with call.control.paused():
            yield WaitFor(gate, call.limit_without_timeout())
    answer: Any = None
    for each in plan.executes:
        params = call.params if plan.shares_params else params_copy_for(call, each)
        given = ask(call, each, plan.tool, params, call.context)
        if given is not None:
            answer = yield from settle_for(call, each, given)
            if not (answer is None or isinstance(answer, (ToolResult, Replay)) or callable(answer)):
                raise wrong_answer(each, answer, "a ToolResult, a Replay, a callable or None")
            if answer is not None:
                break
    call.passed(Milestone.CLAIMED)
    return cast("Any", answer)


def run_here(call: ActiveCall, plan: ToolPlan, function: Any) -> ToolResult[Any]:
    """Call a handler, or the callable in its place, on this thread, and return the result.

    Raises:
        CallRejected: When the value that it returned is not a result.
    """
    monotonic = call.executor.monotonic
    started = monotonic()
    call.handler_state = BEGUN
    try:
        result = function(call.params, context=call.context)
    except BaseException as error:
        _note_raised(call, error)
        raise
    finally:
        call.handler_duration = monotonic() - started
        if call.abandonment is not None:
            call.abandonment.end()
    return _take(call, plan, result)


def run_elsewhere(call: ActiveCall, plan: ToolPlan, instead: Any = None) -> Staged:
    """Run the handler, or a plugin's function, where its limits can end it.

    That is on a thread, as a task or in a process.
    """
    function, is_async = plan.invoke, plan.is_async
    if (instead := instead or call.using) is not None:
        function, is_async = instead, is_async_callable(instead)
    elif function is None:
        raise without_handler(plan.tool)
    # A task on the background loop hears of its caller's end in no other way.
    stop = call.left() if is_async and not call.on_loop else call.cancellation
    is_endless = plan.timeout is None and call.deadline is None and stop is None
    limit = call.limit = ENDLESS if is_endless else Limit(plan.timeout, call.deadline, stop)
    parent = call.parent
    if instead is not None:
        # Else an interrupt would reach the callable before `on_abandoned` has ended its program.
        inline = False
    elif parent is None or parent.limit is None:
        inline = limit is ENDLESS
    else:
        inline = not limit.ends_before(parent.limit)
    if limit.cancellation is not None:
        # Cancelled meanwhile, it need not begin.
        call.check_limits()
    if inline and not is_async and not call.on_loop and call.batch is None:
        return run_here(call, plan, function)
    work = partial(function, call.params, context=call.context)
    monotonic = call.executor.monotonic
    started = monotonic()
    call.handler_state = BEGUN
    try:
        result = yield Run(work, is_async, limit, call, inline, pace=plan.pace)
    except BaseException as error:
        _note_raised(call, error)
        raise
    finally:
        call.handler_duration = monotonic() - started
        if call.abandonment is not None:
            call.abandonment.end()
    return _take(call, plan, result)


def _note_raised(call: ActiveCall, error: BaseException) -> None:
    """Note how the raising handler ended; replace a cancellation that it caused itself."""
    if isinstance(error, (TimedOut, Cancelled, ConflictError, EffectUnknownError)):
        return
    if isinstance(error, asyncio.CancelledError):
        if error is not call.left_child and not _is_cancelled(call):
            msg = "a task that it awaited was cancelled, although the call was not"
            raise RuntimeError(msg) from error
    elif isinstance(error, Exception) and call.closed is None and not call.was_cancelled:
        # Else no caller waited for it any more.
        is_planned = isinstance(error, (*PAUSES, *call.executor.engine.interrupts))
        call.handler_state = HandlerState.after(False if is_planned else was_sent(error))
    if not isinstance(error, Exception):
        # Raised within the handler, it interrupts the thread or the task that runs it.
        call.tell_abandoned()


def _take(call: ActiveCall, plan: ToolPlan, result: Any) -> ToolResult[Any]:
    if call.closed is not None or call.is_bounded:
        call.check_limits()
    if plan.wraps and result.__class__ in _VALUES:
        given = ToolResult.ok(result)
    else:
        given = _read_result(call, plan, result)
    # Only here, because no caller waits for the handler of an abandoned call.
    call.handler_state = RETURNED if given.success else HandlerState.FAILED
    return given


def _is_cancelled(call: ActiveCall) -> bool:
    """Tell whether the waiting task was cancelled; if not, the handler raised by itself."""
    if not call.on_loop:
        return False
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _read_result(call: ActiveCall, plan: ToolPlan, result: Any) -> ToolResult[Any]:
    kind = result.__class__
    if issubclass(kind, ToolResult):
        message: object = result.message
        if isinstance(message, str):
            told: ToolResult[Any] = result
            return told
        what = f"a ToolResult whose message is of type {type(message).__name__}, not str"
    elif kind is CoroutineType:
        result.close()
        what = "a coroutine (write its handler as async def, or await within it)"
    elif plan.tool.signature.wraps:
        return ToolResult.ok(result)
    else:
        what = f"{type(result).__name__}, not a ToolResult"
    msg = f"Internal error in {call.name}: its handler returned {what}. It cannot be used as it is."
    raise CallRejected(Status.ERROR, msg)


# --- Answers of plugins, applied to the session


def apply_result(call: ActiveCall, table: DispatchTable, plan: ToolPlan) -> None:
    """Apply the result's changes to the session if plugins may answer or observe them."""
    if call.answer.__class__ is Replay:
        _apply_changes(call, call.answer)
    elif call.result.value is not None:
        call.branch.dispatch(call.result.value)
    if table.retelling or plan.tool.idempotency is not None:
        try:
            call.session_changes = call.branch.changes()
        except SnapshotError as error:
            call.session_changes = error


def _apply_changes(call: ActiveCall, replay: Replay) -> None:
    """Apply the earlier call's changes to the session, unless it holds them."""
    changes, reason = replay.changes, replay.unportable
    effect_id = replay.effect_id
    if changes is None and reason is None:
        return
    if effect_id is not None and call.branch.has_applied(effect_id):
        return
    if changes is not None:
        try:
            call.branch.redo(changes, kinds=named_in(changes))
        except StateError as error:
            reason = str(error)
        else:
            if effect_id is not None:
                call.branch.mark_applied(effect_id)
            return
    raise CallRefused(
        f"{call.name} has done this already, in another session; what it changed there cannot "
        f"be carried over to this one: {str(reason).rstrip('.')}. It was not run again. This "
        "requires human intervention."
    )

"""The end of a call: the rollback of a failed one, and the one event of each."""

from __future__ import annotations

import asyncio
import logging
import traceback
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast

from toolstile.drivers.job import Staged
from toolstile.drivers.limit import CANCELLED, Cancelled, Stopped
from toolstile.pipeline.call import SUCCEEDED, TELEMETRY, ActiveCall
from toolstile.pipeline.check import params_copy_for, tell_failure
from toolstile.pipeline.commit import undo
from toolstile.pipeline.diffs import note_diff
from toolstile.pipeline.failures import (
    CallRejected,
    FailureContext,
    FailureResult,
    advice_of,
    classify_failure,
)
from toolstile.pipeline.hook_calls import observe
from toolstile.pipeline.masking import log_failure, mask
from toolstile.pipeline.plan import DispatchTable
from toolstile.state.replay import NOTHING
from toolstile_hookspecs import (
    NOTICE,
    CallClosed,
    HandlerState,
    Outcome,
    Status,
    ToolInvoked,
    ToolResult,
    ToolstileError,
)
from toolstile_hookspecs.calls import APPROVAL
from toolstile_hookspecs.codecs import encodable, shorten
from toolstile_hookspecs.support.process import deferred_interrupts
from toolstile_hookspecs.support.text import cut, legible

MAX_ARGUMENTS: Final = 500
"""Characters shown of arguments that a person has changed."""
LONG_VALUE: Final = 1_000
"""Bytes of JSON from which on a value that is kept as itself is not kept as JSON, too."""
FOR_OPERATOR: Final = "toolstile.for_operator"
"""The attribute with the advice for an operator, such as a command, which no model reads."""
log = logging.getLogger("toolstile.pipeline")

_new: Any = object.__new__


def roll_back(call: ActiveCall, table: DispatchTable, error: BaseException) -> Staged:
    """Roll the call back; if that is interrupted, roll it back again."""
    try:
        yield from finished(call, fail(call, table, error), error)
    except BaseException as interruption:  # noqa: BLE001 - likewise
        # It may have come before anything was put back.
        yield from finished(call, fail(call, table, interruption), interruption)


def finished(call: ActiveCall, ending: Staged, error: BaseException) -> Staged:
    """Come to the end of a rollback, also where the event loop has gone meanwhile."""
    if not isinstance(error, GeneratorExit):
        yield from ending
        return
    # The loop has gone: this thread does the work of the workers, and waits for nothing.
    call.on_loop = False
    with suppress(StopIteration):
        next(ending)
        while True:
            ending.throw(error)


def publish_once(call: ActiveCall, table: DispatchTable) -> None:
    """Publish the call's one event, also where that is interrupted before anybody heard of it.

    A separate function, because an interruption at the line of a nested `try` is not caught there.
    """
    try:
        publish(call, table)
    except BaseException:
        if not hasattr(call, "outcome"):
            publish(call, table)
        raise
    finally:
        if call.executor.within is not None and call.parent is None:
            call.executor.within.heard(call)


def fail(call: ActiveCall, table: DispatchTable, error: BaseException) -> Staged:
    """Roll the call back, and decide the message for the model."""
    try:
        _settle(call, error)
    except BaseException as interruption:  # noqa: BLE001 - it leaves when the call has ended
        _settle(call, interruption)
    if call.opened and not call.committed:
        try:
            yield from _take_back(call, table, call.text)
        except BaseException as interruption:  # noqa: BLE001 - it leaves when the call has ended
            call.raises = call.raises or interruption
            if not call.undone or call.participants:
                # The interruption came before all participants of plugins were rolled back.
                yield from undo(call)


def _settle(call: ActiveCall, error: BaseException) -> None:
    """Decide the message for the model about the error, and log the error."""
    error = _closing_error(call, error)
    if isinstance(error, Stopped) and call.resumption and call.resumption.redeemed is None:
        error.is_later = True
        call.attributes = {**call.attributes, APPROVAL: "kept"}
    if call.plan is None:
        called = FailureContext(call.name, contained=False, deadline=call.deadline)
    else:
        tool = call.plan.tool
        raised = call.handler_state not in (HandlerState.NOT_BEGUN, HandlerState.RETURNED)
        told = call.abandonment is not None and call.abandonment.is_told
        lost = call.handler_state is HandlerState.LOST and tool.category != "read"
        contained = tool.contained or any(getattr(p, "contained", 0) for p in call.participants)
        called = FailureContext(call.name, contained, told, raised, lost, call.deadline)
    failure = classify_failure(error, called, call.stage, call.executor.engine.interrupts)
    if isinstance(error, asyncio.CancelledError) and call.was_cancelled:
        # On a loop, the cancellation of its task reaches the calling call as well.
        failure = replace(failure, status=Status.CANCELLED, result=ToolResult.error(CANCELLED))
    message = cut(legible(mask(call, _told(call, failure))), call.executor.max_text)
    result = failure.result
    if message != result.message:
        result = ToolResult(message, result.value, success=False)
    call.status, call.result, call.text, call.data = failure.status, result, message, None
    call.error, call.raises = error, failure.raises
    if advice := advice_of(error, failure):
        # The model does not read it, because a model may repeat anything to a customer.
        advice = mask(call, advice)
        call.attributes = {**call.attributes, FOR_OPERATOR: advice}
        log.warning("%s: %s", call, advice, extra=NOTICE)
    if failure.level:
        text = f"{call}: {failure.status}: {failure.result.message}"
        if failure.traceback:
            text += "\n" + "".join(traceback.format_exception(error)).rstrip()
        log.log(failure.level, "%s", encodable(mask(call, text)))


def _told(call: ActiveCall, failure: FailureResult) -> str:
    """Return the message for the model, which has to know of arguments that it never gave."""
    message = failure.result.message
    if not call.edited:
        return message
    text = call.arguments if isinstance(call.arguments, str) else call.arguments.decode()
    # Masking comes first, because the rest of a cut secret would not be recognised.
    changed = f"A person changed the arguments to {shorten(mask(call, text), MAX_ARGUMENTS)}"
    if failure.status is Status.DENIED:
        return f"{changed}, and these were denied: {message}"
    return f"{changed}. {message}"


def _take_back(call: ActiveCall, table: DispatchTable, reason: str) -> Staged:
    # To its end: plugins that are not notified would keep the call's claims for ever.
    with deferred_interrupts():
        try:
            if table.describes and call.admitted and not call.diff:
                yield from note_diff(call)
            yield from undo(call)
        finally:
            call.rolled_back |= call.admitted
            if call.admitted:
                tell_rollback(call, table, reason)
                if call.plan is not None and call.plan.on_failures:
                    tell_failure(call, call.plan.on_failures)


def _closing_error(call: ActiveCall, error: BaseException) -> BaseException:
    """Return the cause for a closed call's error: its cancellation, or its caller's end."""
    if not isinstance(error, CallClosed):
        return error
    closing: ToolstileError
    if call.was_cancelled:
        closing = Cancelled(CANCELLED)
    elif call.closed is not None:
        closing = CallRejected(Status.CANCELLED, f"{call.name} was abandoned: it {call.closed}.")
    elif (within := call.executor.within) is not None and within.keeps and within.is_over:
        closing = CallRejected(Status.CANCELLED, f"{call.name} was abandoned: {within} has ended.")
    else:
        return error
    closing.__cause__ = error
    return closing


def tell_rollback(call: ActiveCall, table: DispatchTable, reason: str) -> None:
    """Tell the policies and plugins that the changes of an admitted call are gone.

    Raises:
        BaseException: The interruption of an observer, when all are notified.
    """
    plan = call.plan
    assert plan is not None  # noqa: S101 - admitted calls have one
    interruption: BaseException | None = None
    with deferred_interrupts(), call.telling_rollback():
        for rule in plan.on_rollbacks:
            try:
                rule.on_rollback(plan.tool, params_copy_for(call, rule), context=call.context)  # type: ignore[misc]
            except Exception:  # noqa: BLE001 - logged without secrets
                log_failure(call, log, "Policy %s failed to hear of a rollback.", rule.name)
            except BaseException as error:  # noqa: BLE001 - raised when all are notified
                interruption = error
        for each in table.rollbacks:
            try:
                params = params_copy_for(call, each)
                observe(
                    call, (each,), "toolstile_rollback", plan.tool, params, call.context, reason
                )
            except BaseException as error:  # noqa: BLE001 - raised when all are notified
                interruption = error
    if interruption is not None:
        raise interruption


def publish(call: ActiveCall, table: DispatchTable) -> None:
    """Make the call's one event, keep it in the session's log, show it to the observers."""
    executor, plan, made = call.executor, call.plan, call.call_made
    succeeded = call.status is SUCCEEDED
    event = _new(ToolInvoked)
    fields = event.__dict__
    fields.update(executor.event_fields)
    fields["call"] = made
    fields["tool"] = plan.tool if plan is not None else None
    fields["arguments"] = call.arguments if call.params is not None else None
    given = made.arguments
    size = len(call.arguments) + (len(given) if given.__class__ is str else _size_of(call, given))
    result, data = call.result, call.data
    is_text = result.value.__class__ is str
    if (
        data is not None
        and succeeded
        and not (is_text or plan.shares_value)  # type: ignore[union-attr]
        and result.__class__ is ToolResult
    ):
        fields["message"] = result.message
    else:
        fields["result"] = result
    fields["status"] = call.status
    fields["stage"] = TELEMETRY if succeeded else call.stage
    fields["parent_id"] = call.parent.call_made.id if call.parent is not None else None
    fields["timestamp"] = call.timestamp
    fields["duration"] = executor.monotonic() - call.started
    fields["handler_duration"] = call.handler_duration
    fields["attributes"] = call.attributes
    unusual = call.replayed or call.reruns or call.decisions or call.rolled_back or call.batch
    if unusual or not succeeded or call.parent is not None or call.request:
        _add_unusual_fields(fields, call, succeeded=succeeded)
    if call.result_secrets:
        fields["result_secrets"] = call.result_secrets
    if not (succeeded and call.tells_json):
        fields["told" if succeeded else "text"] = call.text  # that of a failure is masked already
        size += len(call.text)
    is_long = data is not None and len(data) > LONG_VALUE
    if not (succeeded and data is not None and (is_text or (is_long and plan.shares_value))):  # type: ignore[union-attr]
        # The JSON of a long value that is kept as itself is made again when it is read.
        fields["data"] = data
    if data is not None and call.text is not result.value:
        size += len(data)
    outcome = call.outcome = _new(Outcome)
    shown = outcome.__dict__
    shown["event"] = event
    shown["held_result"] = result
    executor.home.log(event, size)
    if table.telemetry:
        observe(call, table.telemetry, "toolstile_telemetry", event)
    if table.retelling:
        changes = call.session_changes if succeeded else NOTHING
        observe(call, table.retelling, "toolstile_telemetry", event, changes, call.diff)
    if call.error is not None:
        # A raised exception gathers further frames, those of the application too.
        fields["error"] = (
            _without_frames(call.error) if call.raises is None else _stand_in(call.error)
        )


def _size_of(call: ActiveCall, given: object) -> int:
    """Return about how many bytes the arguments of a call hold that are no text."""
    if isinstance(given, bytes) or call.params is not None:
        return len(given if isinstance(given, bytes) else call.arguments)
    with suppress(ValueError, RecursionError):  # of a value that has no text
        return len(str(given))
    return 0


def _add_unusual_fields(fields: dict[str, Any], call: ActiveCall, *, succeeded: bool) -> None:
    fields["rolled_back"] = call.rolled_back
    fields["pending_parent"] = succeeded and call.parent is not None
    fields["replayed"] = call.replayed
    fields["reruns"] = call.reruns
    fields["decisions"] = call.decisions
    fields["error"] = call.error
    if call.batch is not None:
        fields["batch"] = call.batch.id
    if call.request:
        fields["request"] = call.request


def _without_frames(error: BaseException) -> BaseException:
    """Return the error without its frames, because the event is kept for good."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = None
        left += (each.__cause__, each.__context__)
        if isinstance(each, BaseExceptionGroup):
            left += cast("BaseExceptionGroup[BaseException]", each).exceptions
    return error


def _stand_in(error: BaseException) -> BaseException:
    """Return an error of the same class that says the same, and holds no frames."""
    kind = type(error)
    built_in = next(each for each in kind.__mro__ if each.__module__ == "builtins")
    try:
        made: BaseException = built_in.__new__(kind, *error.args)
        vars(made).update(vars(error))
        alike = str(made) == str(error)
    except Exception:  # noqa: BLE001 - anybody's exception
        return error
    return made if alike else error

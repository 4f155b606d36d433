"""How a call ends: its changes put back where it failed, and its one event for all to see."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from typing import Any

from toolyard.pipeline.asking import observe
from toolyard.pipeline.call_run import CallRun
from toolyard.pipeline.checking import own_params, params_for
from toolyard.pipeline.limits import Cancelled
from toolyard.pipeline.masking import mask
from toolyard.pipeline.plan import Table
from toolyard.pipeline.refusals import Failure, read_failure
from toolyard.pipeline.steps import Step
from toolyard.pipeline.undoing import undo
from toolyard_hookspecs import CallClosed, Outcome, Stage, Status, ToolInvoked, ToolResult

log = logging.getLogger("toolyard.pipeline")

Staged = Generator[Step, Any, Any]


def fail(run: CallRun, table: Table, error: BaseException) -> Staged:
    """Put back what the call changed, and settle what the model is told."""
    error = _as_cancelled(run, error)
    failure = read_failure(error, run.name, run.stage, run.executor.engine.interrupts)
    message = mask(failure.result.message, run.params, run.executor.auth)
    result = failure.result
    if message != result.message:
        result = ToolResult(message, result.value, success=False)
    run.status, run.result, run.text, run.data = failure.status, result, message, None
    run.error, run.raises = error, failure.raises
    _log(run, failure)
    if run.opened and not run.committed:
        try:
            yield from undo(run)
        except BaseException as interruption:  # noqa: BLE001 - it leaves when the call has ended
            run.raises = run.raises or interruption
        run.rolled_back = run.admitted
        if run.admitted:
            tell_rollback(run, table, message)


def _as_cancelled(run: CallRun, error: BaseException) -> BaseException:
    """Return what ended a wait of a cancelled call as what it is: its cancellation."""
    if isinstance(error, CallClosed) and run.cancellation is not None and run.cancellation.aborted:
        cancelled = Cancelled("Request was cancelled")
        cancelled.__cause__ = error
        return cancelled
    return error


def tell_rollback(run: CallRun, table: Table, reason: str) -> None:
    """Tell the policies and plugins that the changes of an admitted call are gone."""
    plan = run.plan
    assert plan is not None  # noqa: S101 - admitted calls have one
    for rule in plan.on_rollbacks:
        try:
            rule.on_rollback(plan.tool, params_for(run, rule), context=run.context)  # type: ignore[misc]
        except Exception:
            log.exception("Policy %s failed to hear of a rollback.", rule.name)
    for each in table.rollbacks:
        params = own_params(run, each)
        observe(run, (each,), "toolyard_rollback", plan.tool, params, run.context, reason)


def _log(run: CallRun, failure: Failure) -> None:
    if not failure.level:
        return
    text = f"{run}: {failure.status}: {failure.result.message}"
    if failure.traceback and run.error is not None:
        text += "\n" + "".join(traceback.format_exception(run.error)).rstrip()
    log.log(failure.level, "%s", mask(text, run.params, run.executor.auth))


def publish(run: CallRun, table: Table) -> None:
    """Make the call's one event, keep it in the session's log, show it to the observers."""
    executor = run.executor
    plan = run.plan
    succeeded = run.status is Status.SUCCEEDED
    event = object.__new__(ToolInvoked)
    fields = event.__dict__
    fields["call"] = run.call_made
    fields["tool"] = plan.tool if plan is not None else None
    fields["params_source"] = None
    if run.params is not None:
        _give_params(run, fields)
    fields["result"] = run.result
    fields["status"] = run.status
    fields["stage"] = Stage.TELEMETRY if succeeded else run.stage
    fields["session_id"] = executor.session.id
    fields["parent_id"] = run.parent.call_made.id if run.parent is not None else None
    fields["timestamp"] = run.timestamp
    fields["duration"] = executor.clock.monotonic() - run.started
    fields["handler_duration"] = run.handler_duration
    fields["facts"] = run.facts
    if not succeeded or run.unusual:
        fields["rolled_back"] = run.rolled_back
        fields["pending_parent"] = succeeded and run.parent is not None
        fields["replayed"] = run.replayed
        fields["reruns"] = run.reruns
        fields["decisions"] = run.decisions
        fields["error"] = run.error
    if executor.user_id is not None:
        fields["user_id"] = executor.user_id
    outcome = run.outcome = object.__new__(Outcome)
    shown = outcome.__dict__
    shown["event"] = event
    shown["text"] = run.text
    shown["data"] = run.data
    executor.session.log(event)
    if table.telemetry:
        observe(run, table.telemetry, "toolyard_telemetry", event)
    if run.error is not None and run.raises is None:
        _forget_frames(run.error)


def _give_params(run: CallRun, fields: dict[str, Any]) -> None:
    plan, params = run.plan, run.params
    assert plan is not None  # noqa: S101 - params are of a tool
    if plan.shares_params:
        fields["held_params"] = params
    else:
        copy, arguments = plan.tool.params_codec.copy, run.arguments
        fields["params_source"] = lambda: copy(arguments)


def _forget_frames(error: BaseException) -> None:
    """Let go of what the error's frames hold, since the event is kept for good."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        each.__traceback__ = None
        each = each.__cause__ or each.__context__

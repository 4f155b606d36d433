"""Early ends of a call, and the result of each."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from toolstile.drivers.limit import CANCELLED, Cancelled, Stopped, TimedOut
from toolstile.plugins.plugin_errors import NO_PROCESS
from toolstile_hookspecs import (
    CallClosed,
    CallRefused,
    ConditionError,
    ConflictError,
    Deadline,
    DeadlineExceededError,
    DecisionUnknownError,
    EffectUnknownError,
    ForeignTool,
    Interrupt,
    ProcessDied,
    PromptEvaluationError,
    ResourceBusyError,
    Stage,
    Status,
    Tool,
    ToolError,
    ToolResult,
    ToolstileError,
    ToolValidationError,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.codecs import in_one_line
from toolstile_hookspecs.support.text import for_model, noted_for_operator

# They cannot leave a generator or a coroutine as they are, only as a RuntimeError about it.
_TURNED_BY_PYTHON = (StopIteration, StopAsyncIteration)
_INVALID = "Invalid arguments"
_NO_MORE = "It may still be running, but can change nothing more"
# The same call is made again when the run continues.
PAUSES = (VisibilityExpansionRequired, Interrupt)
_SAYS_NEXT: Final = re.compile("[Rr]etry|human intervention")
_INSTEAD = "Do not retry it: tell the user, or continue without it."
_LOST = "No answer came, so its effect may have happened. Find out before you retry."
PASSED_ON = (*PAUSES, PromptEvaluationError)


class CallRejected(ToolstileError):
    """The host itself refuses the call, with a text for the model."""

    def __init__(self, status: Status, message: str, for_operator: str = "") -> None:
        super().__init__(message, for_operator=for_operator)
        self.status = status


def refuse_without_handler(tool: Tool[Any, Any], executes: object, using: object | None) -> None:
    """Refuse a tool without a callable, and a callable for a tool that has another."""
    if using is None:
        if not executes:
            raise without_handler(tool)
    elif not isinstance(tool, ForeignTool) or tool.handler is not None:
        raise CallRejected(
            Status.ERROR,
            f"{tool.label} cannot be run by a callable that is given with its call: it has one of "
            "its own. Dispatch it without `using`, then retry.",
        )


def without_handler(tool: Tool[Any, Any]) -> CallRejected | PluginFailed:
    """Return the refusal of a tool that nothing runs."""
    if tool.handler is not None:
        return PluginFailed(NO_PROCESS)
    if isinstance(tool, ForeignTool):
        return CallRejected(
            Status.ERROR,
            f"{tool.label} cannot run: it runs by a callable that is given with each call, and "
            "none was. Nothing has run. Dispatch or resume it with `using`, then retry.",
        )
    return CallRejected(
        Status.UNKNOWN_TOOL,
        f"{tool.label} cannot be called: it has no handler. Use another tool; its plugin has to "
        "give it one.",
    )


def waits_for_itself(name: str) -> CallRejected:
    """Return the refusal of a call that a subscriber dispatches during another call's commit."""
    msg = (
        f"{name} cannot be kept: it was dispatched by what hears of another call, which has its "
        "turn to commit until that returns. Wait until the other call has returned, then retry."
    )
    return CallRejected(Status.ERROR, msg)


def unreadable(name: str, what: str, error: ToolValidationError) -> CallRejected:
    """Return the refusal of a call whose JSON, of its `params` or `value`, its type cannot read."""
    return CallRejected(
        Status.ERROR,
        f"Internal error in {name}: the JSON of its {what} is not what its type reads "
        f"({in_one_line(error)}). This requires human intervention: serializers of the type have "
        "to write what it reads.",
    )


class HandlerFailed(ToolstileError):
    """The handler returned a failed result."""

    def __init__(self, result: ToolResult[Any]) -> None:
        super().__init__(result.message)
        self.result = result


class PluginFailed(ToolstileError):
    """A plugin raised, gave a wrong answer or is missing, so that the handler cannot run."""


class CommitFailed(ToolstileError):
    """A participant failed after the decision to commit; nothing is rolled back."""


@dataclass(frozen=True, slots=True)
class FailureContext:
    """Whose call it was.

    Args:
        name: The tool's name, or the name in the call.
        contained: Whether nothing of it outlives a rollback.
        told_to_stop: Whether the callbacks of `on_abandoned` have ended its work elsewhere.
        raised: Whether its handler raised, not a plugin that answers or takes the result.
        lost: Whether it raised because the answer of a service was lost.
        deadline: Its deadline.
    """

    name: str
    contained: bool
    told_to_stop: bool = False
    raised: bool = False
    lost: bool = False
    deadline: Deadline | None = None


@dataclass(frozen=True, slots=True)
class FailureResult:
    """The meaning of an early end.

    Args:
        status: The call's status.
        result: The result for the model.
        level: At which level it is logged; 0 for not at all.
        traceback: Whether the log shows the traceback.
        raises: The exception that leaves `dispatch`, None if the result is returned.
    """

    status: Status
    result: ToolResult[Any]
    level: int = logging.INFO
    traceback: bool = False
    raises: BaseException | None = None


def classify_failure(
    error: BaseException,
    called: FailureContext,
    stage: Stage,
    passed_on: tuple[type[BaseException], ...],
) -> FailureResult:
    """Return the meaning of an exception that a plugin, a handler or the host raised in a stage.

    Exceptions of other frameworks may be `passed_on`: they leave `dispatch`.
    """
    if not isinstance(error, Exception):
        why = ": its process was about to end" if isinstance(error, SystemExit) else ""
        if isinstance(error, KeyboardInterrupt):
            why = ": its process was asked to stop"
        told = ToolResult.error(f"{called.name} was interrupted{why}.")
        return FailureResult(Status.RAISED, told, level=0, raises=error)
    if stage is Stage.EXECUTE:
        read = _IN_HANDLER
    else:
        read = _IN_ARGUMENTS if stage in _READING_ARGUMENTS else _ELSEWHERE
    if read is _IN_HANDLER and isinstance(error, (*PASSED_ON, *passed_on)):
        return _passed_on(error)
    for kind, reader in read:
        if isinstance(error, kind):
            return reader(error, called)
    return _internal(error, called)


def text_of(error: BaseException) -> str:
    """Return the part of an exception's text that a model may read."""
    try:
        return f"{error}{_of_those_in(error)}"
    except Exception:  # noqa: BLE001 - anybody's exception; its class has to do
        return type(error).__name__


def advice_of(error: BaseException, failure: FailureResult) -> str:
    """Return the text for an operator that no model reads, "" for none."""
    if failure.level == logging.ERROR:
        whole = text_of(error)
        if for_model(whole) != whole and whole not in failure.result.message:
            return whole
    return noted_for_operator(error)


def _for_customer(error: BaseException) -> str:
    """Return the text of an exception that no model was meant to read, as a customer may."""
    return for_model(text_of(error))


def _of_those_in(error: BaseException) -> str:
    """Return the texts of a group's exceptions, because the group's text has only their number."""
    if not isinstance(error, BaseExceptionGroup):
        return ""
    inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
    told = [text_of(each) or type(each).__name__ for each in inner]
    return f": {'; '.join(dict.fromkeys(told))}"


def _handler_failed(error: Any, called: FailureContext) -> FailureResult:
    result: ToolResult[Any] = error.result
    if not result.message.strip():
        result = replace(result, message=_in_words("", called))
    return FailureResult(Status.FAILED, result)


def _in_words(text: str, called: FailureContext) -> str:
    """Return a text that says something: who reads nothing cannot know that a call failed."""
    if text.strip():
        return text
    return f"{called.name} failed and did not say why. Check the arguments, then retry once."


def _refused(error: Any, called: FailureContext) -> FailureResult:  # noqa: ARG001 - one shape for all
    return FailureResult(error.status, ToolResult.error(text_of(error)))


def _refused_by_plugin(error: Any, called: FailureContext) -> FailureResult:
    told = _in_words(text_of(error), called)
    return FailureResult(Status.ERROR, ToolResult.error(told), logging.WARNING)


def _kept_by_plugin(error: Exception, called: FailureContext) -> FailureResult:
    message = f"{called.name} cannot run: {_for_customer(error)}. This requires human intervention."
    # Unless a plugin has raised it, a traceback would show the host alone.
    raised = error.__cause__ is not None
    return FailureResult(Status.ERROR, ToolResult.error(message), logging.ERROR, traceback=raised)


def _timed_out(error: Exception, called: FailureContext) -> FailureResult:
    if called.contained:
        now = "It was asked to stop" if called.told_to_stop else _NO_MORE
        told = f"{now}; its changes are rolled back. Retry with a smaller request."
    else:
        now = "It was asked to stop, but" if called.told_to_stop else "It may still be running and"
        told = (
            f"{now} may have had effects outside; its changes here are rolled back. "
            "Check for these effects before you retry."
        )
    message = f"{called.name} {text_of(error)}. {told}"
    return FailureResult(Status.TIMED_OUT, ToolResult.error(message))


def _cancelled(error: Exception, called: FailureContext) -> FailureResult:  # noqa: ARG001 - one shape for all
    return FailureResult(Status.CANCELLED, ToolResult.error(CANCELLED))


def _stopped(error: Any, called: FailureContext) -> FailureResult:
    status, left = Status.CANCELLED, "Its changes are rolled back."
    if not error.begun:
        status, left = Status.DENIED, "Nothing of it has run."
        if error.is_later:
            left += " Its approval is not used up: it can be resumed when the stop is over."
    elif not called.contained:
        left = "Its changes here are rolled back; it may have had effects outside."
    told = f"{called.name} was stopped: {text_of(error).rstrip('.')}. {left} {_INSTEAD}"
    return FailureResult(status, ToolResult.error(told))


def _given_up(error: Exception, called: FailureContext) -> FailureResult:
    told = f"{called.name} was abandoned: {text_of(error)}"
    return FailureResult(Status.CANCELLED, ToolResult.error(told))


def _deadline(error: Exception, called: FailureContext) -> FailureResult:
    message = (called.deadline or Deadline(0)).reason
    if not message.startswith(called.name):
        message = f"{called.name} did not finish: {message[0].lower()}{message[1:]}"
    raised = PromptEvaluationError(message)
    raised.__cause__ = error
    return FailureResult(Status.DEADLINE, ToolResult.error(message), raises=raised)


def _passed_on(error: Exception) -> FailureResult:
    late = isinstance(error.__cause__, DeadlineExceededError)
    status = Status.DEADLINE if late else Status.RAISED
    result: ToolResult[Any] = ToolResult.error(text_of(error) or type(error).__name__)
    return FailureResult(status, result, level=0, raises=error)


def _invalid(error: Exception, called: FailureContext) -> FailureResult:
    told = _in_words(text_of(error), called)
    if told.startswith(f"{_INVALID}:"):
        told = f"{_INVALID} for {called.name}{told.removeprefix(_INVALID)}"
    return FailureResult(Status.INVALID, ToolResult.error(told))


def _said_by_handler(error: Exception, called: FailureContext) -> FailureResult:
    return FailureResult(Status.FAILED, ToolResult.error(_in_words(text_of(error), called)))


def _conflicting(error: Exception, called: FailureContext) -> FailureResult:
    if called.contained:
        told = "Nothing of it remains."
    else:
        told = "Effects it may have had outside were not undone."
    message = (
        f"{called.name} was rolled back: {text_of(error)} {told} "
        "Read the current state, then retry."
    )
    return FailureResult(Status.CONFLICT, ToolResult.error(message))


def _busy(error: Exception, called: FailureContext) -> FailureResult:
    told = f"{called.name} was rolled back: {text_of(error)}"
    return FailureResult(Status.ERROR, ToolResult.error(told))


def _half_committed(error: Exception, called: FailureContext) -> FailureResult:  # noqa: ARG001 - one shape for all
    interruption = None if isinstance(error.__cause__, Exception) else error.__cause__
    told = ToolResult.error(_for_customer(error))
    return FailureResult(Status.COMMIT_FAILED, told, logging.ERROR, raises=interruption)


def _undecided(error: Exception, called: FailureContext) -> FailureResult:
    message = (
        f"{called.name} ran, but whether its changes were kept is unknown: {_for_customer(error)}. "
        "Check for these changes before you retry."
    )
    return FailureResult(Status.UNKNOWN, ToolResult.error(message), logging.ERROR)


def _badly_called(error: Exception, called: FailureContext) -> FailureResult:
    if not called.raised:
        return _internal(error, called)
    message = (
        f"{called.name} was called in a way its code does not take, or its code is at fault "
        f"(TypeError: {text_of(error)}). Check the arguments against the schema, then retry once."
    )
    return FailureResult(Status.ERROR, ToolResult.error(message), logging.ERROR, traceback=True)


def _internal(error: Exception, called: FailureContext) -> FailureResult:
    raised: BaseException = error
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, _TURNED_BY_PYTHON):
        raised = error.__cause__
    told = _for_customer(raised)
    message = f"Internal error in {called.name}: {told or type(raised).__name__}"
    if told != text_of(raised) and not _SAYS_NEXT.search(told):
        message = f"{message.rstrip('.')}. This requires human intervention."
    if called.lost and not called.contained:
        message = f"{message.rstrip('.')}. {_LOST}"
    return FailureResult(Status.ERROR, ToolResult.error(message), logging.ERROR, traceback=True)


Reader = Callable[[Any, FailureContext], FailureResult]
Readers = tuple[tuple[type[Exception], Reader], ...]

_ANYWHERE: Readers = (
    (HandlerFailed, _handler_failed),
    (CallRejected, _refused),
    (CallRefused, _refused_by_plugin),
    (PluginFailed, _kept_by_plugin),
    (TimedOut, _timed_out),
    (Stopped, _stopped),
    (Cancelled, _cancelled),
    (DeadlineExceededError, _deadline),
    (ConflictError, _conflicting),
    (ResourceBusyError, _busy),
    (CommitFailed, _half_committed),
    (DecisionUnknownError, _undecided),
)
_IN_HANDLER: Readers = (
    *_ANYWHERE,
    (ToolValidationError, _said_by_handler),
    (ConditionError, _said_by_handler),
    (ToolError, _said_by_handler),
    (ProcessDied, _internal),
    (EffectUnknownError, _said_by_handler),
    (TypeError, _badly_called),
)
_ELSEWHERE: Readers = (*_ANYWHERE, (CallClosed, _given_up))
# Edited arguments are parsed again, whatever stage asked for approval.
_READING_ARGUMENTS: Final = frozenset({Stage.PARSE, Stage.CHECK, Stage.APPROVE})
_IN_ARGUMENTS: Readers = (*_ELSEWHERE, (ToolValidationError, _invalid))
_TELLING: Final = tuple(kind for kind, _ in _ELSEWHERE)


def is_call_outcome(error: Exception) -> bool:
    """Tell whether an exception that a hook raised stands for more than the hook's failure."""
    return isinstance(error, _TELLING)

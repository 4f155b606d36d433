"""How a call can end early, and what each way means for the result."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolyard.pipeline.limits import Cancelled, TimedOut
from toolyard_hookspecs import (
    CallClosed,
    ConditionError,
    ConflictError,
    DeadlineExceededError,
    Interrupt,
    PromptEvaluationError,
    Stage,
    Status,
    ToolResult,
    ToolValidationError,
    ToolyardError,
    VisibilityExpansionRequired,
)

MAX_TEXT = 2_000
PASSED_ON = (VisibilityExpansionRequired, PromptEvaluationError, Interrupt)


class Refusal(ToolyardError):
    """The host itself refuses the call, with a text for the model."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class HandlerFailed(ToolyardError):
    """The handler returned a failed result."""

    def __init__(self, result: ToolResult[Any]) -> None:
        super().__init__(result.message)
        self.result = result


class CommitFailed(ToolyardError):
    """A participant failed after the decision to commit; nothing is rolled back."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What an early end means.

    Args:
        status: What became of the call.
        result: What the model is told.
        level: At which level it is logged; 0 for not at all.
        traceback: Whether the log shows where it came from.
        raises: What leaves `dispatch`, None where the result is returned.
    """

    status: Status
    result: ToolResult[Any]
    level: int = logging.INFO
    traceback: bool = False
    raises: BaseException | None = None


def read_failure(
    error: BaseException, name: str, stage: Stage, passed_on: tuple[type[BaseException], ...]
) -> Failure:
    """Return what an exception means for the call that raised it.

    Args:
        error: What was raised, by a plugin, a handler or the host.
        name: The tool's name.
        stage: Where it was raised.
        passed_on: Exceptions of other frameworks that are to leave `dispatch`.
    """
    if not isinstance(error, Exception):
        message = f"{name} was interrupted ({type(error).__name__})."
        return Failure(Status.RAISED, ToolResult.error(message), level=0, raises=error)
    read = _IN_HANDLER if stage is Stage.EXECUTE else _ELSEWHERE
    if read is _IN_HANDLER and isinstance(error, (*PASSED_ON, *passed_on)):
        return _passed_on(error)
    for kind, reader in read:
        if isinstance(error, kind):
            return reader(error, name)
    return _internal(error, name)


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except Exception:  # noqa: BLE001 - anybody's exception; its class has to do
        return type(error).__name__


def _handler_failed(error: Any, name: str) -> Failure:  # noqa: ARG001 - one shape for all
    return Failure(Status.FAILED, error.result)


def _refused(error: Any, name: str) -> Failure:  # noqa: ARG001
    return Failure(error.status, ToolResult.error(_text(error)))


def _timed_out(error: Exception, name: str) -> Failure:
    message = (
        f"{name} {_text(error)}. It may still be running and may have had effects outside; its "
        "changes here are rolled back. Find out what happened before you retry."
    )
    return Failure(Status.TIMED_OUT, ToolResult.error(message))


def _cancelled(error: Exception, name: str) -> Failure:  # noqa: ARG001
    return Failure(Status.CANCELLED, ToolResult.error("Request was cancelled"))


def _given_up(error: Exception, name: str) -> Failure:
    return Failure(Status.CANCELLED, ToolResult.error(f"{name} was given up: {_text(error)}"))


def _deadline(error: Exception, name: str) -> Failure:
    message = f"{name} cannot run to its end: the deadline of this evaluation has passed."
    raised = PromptEvaluationError(message)
    raised.__cause__ = error
    return Failure(Status.DEADLINE, ToolResult.error(message), raises=raised)


def _passed_on(error: Exception) -> Failure:
    late = isinstance(error.__cause__, DeadlineExceededError)
    status = Status.DEADLINE if late else Status.RAISED
    result: ToolResult[Any] = ToolResult.error(_text(error) or type(error).__name__)
    return Failure(status, result, level=0, raises=error)


def _invalid(error: Exception, name: str) -> Failure:  # noqa: ARG001
    return Failure(Status.INVALID, ToolResult.error(_text(error)))


def _said_by_handler(error: Exception, name: str) -> Failure:  # noqa: ARG001
    return Failure(Status.FAILED, ToolResult.error(_text(error)))


def _conflicting(error: Exception, name: str) -> Failure:
    message = (
        f"{name} was rolled back: {_text(error)} Effects it may have had outside were not undone. "
        "Read the current state, then retry."
    )
    return Failure(Status.CONFLICT, ToolResult.error(message))


def _half_committed(error: Exception, name: str) -> Failure:  # noqa: ARG001
    return Failure(Status.COMMIT_FAILED, ToolResult.error(_text(error)), logging.ERROR)


def _badly_called(error: Exception, name: str) -> Failure:
    message = (
        f"{name} was called in a way its code does not take, or its code is at fault "
        f"(TypeError: {_text(error)}). Check the arguments against the schema, then retry once."
    )
    return Failure(Status.ERROR, ToolResult.error(message), logging.ERROR, traceback=True)


def _internal(error: Exception, name: str) -> Failure:
    message = f"Internal error in {name}: {_text(error) or type(error).__name__}"
    return Failure(Status.ERROR, ToolResult.error(message), logging.ERROR, traceback=True)


Reader = Callable[[Any, str], Failure]
Readers = tuple[tuple[type[Exception], Reader], ...]

_ANYWHERE: Readers = (
    (HandlerFailed, _handler_failed),
    (Refusal, _refused),
    (TimedOut, _timed_out),
    (Cancelled, _cancelled),
    (DeadlineExceededError, _deadline),
    (ConflictError, _conflicting),
    (CommitFailed, _half_committed),
)
_IN_HANDLER: Readers = (
    *_ANYWHERE,
    (ToolValidationError, _said_by_handler),
    (ConditionError, _said_by_handler),
    (TypeError, _badly_called),
)
_ELSEWHERE: Readers = (*_ANYWHERE, (ToolValidationError, _invalid), (CallClosed, _given_up))

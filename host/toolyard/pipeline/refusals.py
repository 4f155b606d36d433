"""How a call can end early, and what each way means for the result."""

from __future__ import annotations

import logging
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
    text = str(error)[:MAX_TEXT]
    in_handler = stage is Stage.EXECUTE
    match error:
        case HandlerFailed():
            return Failure(Status.FAILED, error.result)
        case Refusal():
            return Failure(error.status, ToolResult.error(text))
        case TimedOut():
            return Failure(Status.TIMED_OUT, ToolResult.error(_timed_out(name, text)))
        case Cancelled():
            return Failure(Status.CANCELLED, ToolResult.error("Request was cancelled"))
        case DeadlineExceededError():
            return _deadline(error, name)
        case _ if in_handler and isinstance(error, (*PASSED_ON, *passed_on)):
            late = isinstance(error.__cause__, DeadlineExceededError)
            status = Status.DEADLINE if late else Status.RAISED
            return Failure(status, ToolResult.error(text or type(error).__name__), 0, False, error)
        case ToolValidationError():
            status = Status.INVALID if stage is Stage.PARSE else Status.FAILED
            return Failure(status, ToolResult.error(text))
        case ConditionError():
            return Failure(Status.FAILED, ToolResult.error(text))
        case ConflictError():
            return Failure(Status.CONFLICT, ToolResult.error(_conflict(name, text)))
        case CommitFailed():
            return Failure(Status.COMMIT_FAILED, ToolResult.error(text), logging.ERROR)
        case CallClosed() if not in_handler:
            return Failure(Status.CANCELLED, ToolResult.error(f"{name} was given up: {text}"))
        case TypeError() if in_handler:
            message = (
                f"{name} was called in a way its code does not take, or its code is at fault "
                f"(TypeError: {text}). Check the arguments against the schema, then retry once."
            )
            return Failure(Status.ERROR, ToolResult.error(message), logging.ERROR, True)
        case Exception():
            message = f"Internal error in {name}: {text or type(error).__name__}"
            return Failure(Status.ERROR, ToolResult.error(message), logging.ERROR, True)
        case _:
            message = f"{name} was interrupted ({type(error).__name__})."
            return Failure(Status.RAISED, ToolResult.error(message), 0, False, error)


def _deadline(error: DeadlineExceededError, name: str) -> Failure:
    message = f"{name} cannot run to its end: the deadline of this evaluation has passed."
    raised = PromptEvaluationError(message)
    raised.__cause__ = error
    return Failure(Status.DEADLINE, ToolResult.error(message), raises=raised)


def _timed_out(name: str, text: str) -> str:
    return (
        f"{name} {text}. It may still be running and may have had effects outside; its "
        "changes here are rolled back. Find out what happened before you retry."
    )


def _conflict(name: str, text: str) -> str:
    return (
        f"{name} was rolled back: {text} Effects it had outside were not undone. Read the "
        "current state, then retry."
    )

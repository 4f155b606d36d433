"""One call from end to end: what is asked, how far it got, what came out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from toolyard_hookspecs.limits import Cancellation, Deadline
from toolyard_hookspecs.results import ToolResult

if TYPE_CHECKING:
    from toolyard_hookspecs.policies import PolicyDecision
    from toolyard_hookspecs.tools import Tool

NO_META: Final[Mapping[str, Any]] = MappingProxyType({})

_numbers = itertools.count(1)


def _next_id() -> str:
    return f"call-{next(_numbers)}"


class Stage(StrEnum):
    """How far a call got; in the order of its life."""

    LOOKUP = "lookup"
    PARSE = "parse"
    DEADLINE = "deadline"
    CHECK = "check"
    APPROVE = "approve"
    RESERVE = "reserve"
    SNAPSHOT = "snapshot"
    EXECUTE = "execute"
    RENDER = "render"
    VALIDATE = "validate"
    ON_RESULT = "on_result"
    PREPARE = "prepare"
    COMMIT = "commit"
    TELEMETRY = "telemetry"


class Status(StrEnum):
    """What became of a call."""

    SUCCEEDED = "succeeded"
    """It did what it should, and its changes are committed (or joined to its parent's).

    In a dry run it did what it should, and its changes are rolled back."""
    FAILED = "failed"
    """The handler itself said so, with `ToolResult.error` or `ToolValidationError`."""
    UNKNOWN_TOOL = "unknown_tool"
    """No tool of that name, or one without a handler."""
    INVALID = "invalid"
    """The arguments do not fit."""
    DENIED = "denied"
    """A policy, an approver or a dry run did not allow it."""
    PENDING = "pending"
    """An approver will answer later; nothing ran."""
    ERROR = "error"
    """Something raised that should not have."""
    TIMED_OUT = "timed_out"
    """The handler took longer than the tool's timeout; it may still be running."""
    CANCELLED = "cancelled"
    """It was cancelled from outside."""
    DEADLINE = "deadline"
    """The deadline of the evaluation passed."""
    CONFLICT = "conflict"
    """Another call changed what this one had read."""
    COMMIT_FAILED = "commit_failed"
    """A participant failed after the decision to commit; the message says what is where."""
    RAISED = "raised"
    """An exception that is not the call's own left `dispatch`."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool.

    Args:
        name: The tool, by its name or its wire name.
        arguments: JSON text as the provider sent it, or an object already read.
        id: The provider's id of the call; made up where it has none.
        cancellation: Keep it to cancel the call from outside.
        deadline: Ends the evaluation; the executor's own holds as well.
        meta: What came along and is no argument, such as `traceparent`.

    Example:
        >>> ToolCall("add", {"a": 1, "b": 2}, id="call_1").id
        'call_1'
    """

    name: str
    arguments: str | bytes | Mapping[str, Any] = "{}"
    id: str = field(default_factory=_next_id)
    cancellation: Cancellation | None = None
    deadline: Deadline | None = None
    meta: Mapping[str, Any] = field(default_factory=lambda: NO_META)


@dataclass(frozen=True)
class ToolInvoked:
    """The one event of a call, published for every outcome.

    Args:
        call: The call as it came.
        tool: The tool, or None where none was found.
        params_source: Gives a copy of the typed params, where they could be changed.
        result: What the model is told.
        status: What became of the call.
        stage: The stage at which it ended; `telemetry` for one that passed all.
        session_id: The session it ran in.
        parent_id: The id of the call that made this one, or None.
        timestamp: When it was made; aware, UTC.
        duration: Seconds from lookup to the event.
        handler_duration: Seconds within the handler, None where it did not run.
        rolled_back: Whether changes it made were put back.
        pending_parent: Whether its changes wait for its parent's commit.
        replayed: Whether the result came from a record, without running the handler.
        reruns: How often it was run again after a conflict.
        decisions: What each policy said, in order, where one said anything but allow.
        error: The exception behind it, where there is one.
        user_id: For whom it ran.
        facts: What plugins noted about the call, by `plugin.name`.
        held_params: The typed params themselves, where nothing in them can change.
    """

    call: ToolCall
    tool: Tool[Any, Any] | None
    params_source: Callable[[], Any] | None
    result: ToolResult[Any]
    status: Status
    stage: Stage
    session_id: str
    parent_id: str | None
    timestamp: datetime
    duration: float
    handler_duration: float | None = None
    rolled_back: bool = False
    pending_parent: bool = False
    replayed: bool = False
    reruns: int = 0
    decisions: tuple[PolicyDecision, ...] = ()
    error: BaseException | None = None
    user_id: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    held_params: Any = None

    @property
    def params(self) -> Any:
        """The typed params, or None where it did not get that far.

        Where they could be changed, every reader gets a copy of its own.
        """
        return self.held_params if self.params_source is None else self.params_source()

    @property
    def tool_name(self) -> str:
        """The tool's own name, or the one that was asked for."""
        return self.tool.name if self.tool is not None else self.call.name

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.call.id

    @property
    def success(self) -> bool:
        """Whether the call succeeded."""
        return self.result.success


@dataclass(frozen=True)
class Outcome:
    """What `dispatch` returns.

    Args:
        event: The event of the call.
        text: What the model reads.
        data: The value as compact JSON, None for a failure or an excluded value.
    """

    event: ToolInvoked
    text: str
    data: bytes | None = None

    @property
    def call(self) -> ToolCall:
        """The call as it came."""
        return self.event.call

    @property
    def tool(self) -> Tool[Any, Any] | None:
        """The tool, or None where none was found."""
        return self.event.tool

    @property
    def result(self) -> ToolResult[Any]:
        """The result with its typed value."""
        return self.event.result

    @property
    def status(self) -> Status:
        """What became of the call."""
        return self.event.status

    @property
    def stage(self) -> Stage:
        """The stage at which it ended."""
        return self.event.stage

    @property
    def success(self) -> bool:
        """Whether the call succeeded."""
        return self.event.result.success

    @property
    def is_error(self) -> bool:
        """Whether the host refused, rolled back or caught it; false for a tool's own failure."""
        return self.event.status not in {Status.SUCCEEDED, Status.FAILED}

    def envelope(self) -> dict[str, Any]:
        """Return the wire form: `tool`, `fetchedAt`, and `data` or `error`, never both."""
        wire: dict[str, Any] = {
            "tool": self.event.tool_name,
            "fetchedAt": wire_time(self.event.timestamp, self.event.duration),
        }
        if not self.success:
            wire["error"] = self.text
        elif self.data is not None:
            wire["data"] = json.loads(self.data)
        else:
            wire["data"] = self.text or None
        return wire


def wire_time(moment: datetime, offset: float = 0.0) -> str:
    """Return a moment as ISO 8601 in UTC with milliseconds, `2026-01-15T10:30:00.000Z`."""
    later = moment.astimezone(UTC) + timedelta(seconds=offset)
    text = later.isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")

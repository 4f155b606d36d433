"""One call from end to end: what is asked, how far it got, what came out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs._schema.secrets import hide, hide_within, masked, secrets_in, secrets_of
from toolstile_hookspecs.limits import Cancellation, Deadline
from toolstile_hookspecs.masking import Secret
from toolstile_hookspecs.results import ToolResult

if TYPE_CHECKING:
    from toolstile_hookspecs.policies import PolicyDecision
    from toolstile_hookspecs.tools import Tool


# --- Names of attributes

REPLAYED_EFFECT: Final = "toolstile.replayed_effect"
"""The id of the effect by which a call was answered with a `Replay`."""
APPROVAL: Final = "toolstile.approval"
"""The answer of a person: `approved`, `denied`, `edited` or `pending`; `unanswered`, or `refused`
where a token did not hold."""
APPROVAL_REASON: Final = "toolstile.approval_reason"
"""The reason of an answer, without secrets."""
APPROVAL_TOKEN: Final = "toolstile.approval_token"  # noqa: S105 - its name
"""The token that resumes a call which waits for approval."""
APPROVAL_TICKET: Final = "toolstile.approval_ticket"
"""The ticket that an approver gave to a call which waits for approval elsewhere."""
DIFF: Final = "toolstile.diff"
"""The changes of a call, as an approver or a dry run shows them; without secrets."""
NO_CHANGES: Final = "no changes"
"""The diff of a call that would change nothing."""
DRY_RUN: Final = "toolstile.dry_run"
"""True where nothing of the call was to be kept."""

# --- Calls, events and outcomes

NO_META: Final[Mapping[str, Any]] = MappingProxyType({})

_numbers = itertools.count(1)


class MadeUpId(str):
    """The id of a call to which its provider gave none; it means nothing to anybody else."""

    __slots__ = ()


def _next_id() -> str:
    return MadeUpId(f"call-{next(_numbers)}")


class Stage(StrEnum):
    """The stages of a call, in the order of its life."""

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
    """The status in which a call ended."""

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
        arguments: JSON text as the provider sent it, or an object; secrets are in clear.
        id: The provider's id of the call; made up where it has none.
        cancellation: Keep it to cancel the call from outside.
        deadline: Ends the evaluation; the executor's own holds as well.
        meta: What came along beside the arguments, such as `traceparent`.

    Example:
        >>> ToolCall("add", {"a": 1, "b": 2}, id="call_1").id
        'call_1'
    """

    name: str
    arguments: str | bytes | Mapping[str, Any] = field(default="{}", repr=False)
    id: str = field(default_factory=_next_id)
    cancellation: Cancellation | None = None
    deadline: Deadline | None = None
    meta: Mapping[str, Any] = field(default_factory=lambda: NO_META)

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.name, self.arguments, self.id, self.cancellation, self.deadline)
        # The `meta` of most cannot be pickled as it is.
        return self.__class__, (*given, dict(self.meta))


@dataclass(frozen=True)
class ToolInvoked:
    """The one event of a call, published for every outcome.

    Args:
        call: The call as it came.
        tool: The tool, or None where none was found.
        arguments: The params as strict JSON, defaults included; None without params.
        result: The result. Of a value that could be changed, every reader gets a copy made
            from `data`, or plain JSON where its type does not take that.
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
        attributes: What plugins noted about the call, by `plugin.name`.
        text: What the model reads.
        data: The value as compact JSON, None for a failure or an excluded value.
        held_params: The typed params, where no tool can read the arguments.
        auth: The user's credentials, so that they can be kept out of texts.
        result_secrets: What the value held that its type or schema says is secret.
    """

    call: ToolCall
    tool: Tool[Any, Any] | None
    arguments: str | bytes | None = field(repr=False)
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
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text: str = ""
    data: bytes | None = None
    held_params: Any = field(default=None, repr=False)
    auth: Secret | None = field(default=None, repr=False)
    result_secrets: tuple[str, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        """Say what became of which call; texts, values and errors may hold secrets."""
        return (
            f"ToolInvoked(tool={self.tool_name!r}, call={self.call_id!r}, status={self.status}, "
            f"stage={self.stage}, session={self.session_id!r})"
        )

    @property
    def params(self) -> Any:
        """The typed params, or None where it did not get that far; each reader gets a copy."""
        if self.arguments is None or self.tool is None:
            return self.held_params
        return self.tool.params_codec.copy(self.arguments)

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
        """True when the call succeeded."""
        return self.status is Status.SUCCEEDED

    @property
    def shown_arguments(self) -> Any:
        """The arguments as JSON values, secrets masked; None where they did not fit."""
        if self.arguments is None or self.tool is None:
            return None
        return masked(json.loads(self.arguments), self.tool.params_codec.secret_schema())

    @property
    def shown_value(self) -> Any:
        """The value as JSON values, secrets masked; None for a failure or an excluded value."""
        if self.data is None or self.tool is None:
            return None
        value = masked(json.loads(self.data), self.tool.result_codec.secret_schema())
        return hide_within(value, self._secrets())

    def hide(self, text: str) -> str:
        """Return a text without the secrets of params and value, and the user's credentials."""
        return hide(text, self._secrets())

    def _secrets(self) -> tuple[str, ...]:
        secrets = [*secrets_in(self.held_params), *secrets_in(self.auth), *self.result_secrets]
        if self.arguments is not None and self.tool is not None:
            schema = self.tool.params_codec.secret_schema()
            secrets += secrets_of(json.loads(self.arguments), schema) if schema else ()
        return tuple(secrets)

    def envelope(self) -> dict[str, Any]:
        """Return the wire form: `tool`, `fetchedAt`, and `data` or `error`, never both.

        A repeated call that got the result of the first one says `replayed`.
        """
        wire: dict[str, Any] = {
            "tool": self.tool_name,
            "fetchedAt": wire_time(self.timestamp, self.duration),
        }
        if not self.success:
            wire["error"] = self.text
        elif self.data is not None:
            wire["data"] = json.loads(self.data)
        else:
            wire["data"] = self.text or None
        if REPLAYED_EFFECT in self.attributes:
            wire["replayed"] = True
        return wire


class _FromJson:
    """The result of an event that keeps only its message and JSON: nobody can change those."""

    def __get__(self, event: ToolInvoked, kind: type[ToolInvoked]) -> ToolResult[Any]:
        return ToolResult(vars(event)["message"], _value_of(event.tool, event.data))


class _JsonItself:
    """The text of an event that is its value's JSON, and so is kept once."""

    def __get__(self, event: ToolInvoked | None, kind: type[ToolInvoked]) -> str:
        return "" if event is None or event.data is None else event.data.decode()


class _FromText:
    """The JSON of an event whose value is a text, which is kept as itself and so once."""

    def __get__(self, event: ToolInvoked | None, kind: type[ToolInvoked]) -> bytes | None:
        if event is None or event.tool is None:
            return None
        return event.tool.result_codec.encode(vars(event)["result"].value)


ToolInvoked.text = _JsonItself()  # type: ignore[assignment]
ToolInvoked.data = _FromText()  # type: ignore[assignment]
ToolInvoked.result = _FromJson()  # type: ignore[assignment]


def _value_of(tool: Tool[Any, Any] | None, data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return tool.result_codec.copy(data) if tool is not None else json.loads(data)
    except ValueError:
        return json.loads(data)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call, as `dispatch` returns it.

    Args:
        event: The event of the call.
        held_result: The result itself, where the event has only copies of it.
    """

    event: ToolInvoked
    held_result: ToolResult[Any] | None = field(default=None, repr=False)

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
        held = self.held_result
        return self.event.result if held is None else held

    @property
    def text(self) -> str:
        """The text that the model reads."""
        return self.event.text

    @property
    def data(self) -> bytes | None:
        """The value as compact JSON, None for a failure or an excluded value."""
        return self.event.data

    @property
    def status(self) -> Status:
        """The status in which the call ended."""
        return self.event.status

    @property
    def stage(self) -> Stage:
        """The stage at which it ended."""
        return self.event.stage

    @property
    def success(self) -> bool:
        """True when the call succeeded."""
        return self.event.success

    @property
    def is_error(self) -> bool:
        """True when the host refused, rolled back or caught it; false for a tool's own failure."""
        status = self.event.status
        return status is not Status.SUCCEEDED and status is not Status.FAILED

    @property
    def approval_token(self) -> str | None:
        """The token that resumes a pending call after a person decides; otherwise None.

        It is secret: give it to nobody but those who may decide.
        """
        return self.event.attributes.get(APPROVAL_TOKEN)

    def envelope(self) -> dict[str, Any]:
        """Return the wire form: `tool`, `fetchedAt`, and `data` or `error`, never both."""
        return self.event.envelope()


def wire_time(moment: datetime, offset: float = 0.0) -> str:
    """Return a moment as ISO 8601 in UTC with milliseconds, `2026-01-15T10:30:00.000Z`."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    later = in_utc + timedelta(seconds=offset)
    return f"{later.isoformat(timespec='milliseconds')[:-6]}Z"

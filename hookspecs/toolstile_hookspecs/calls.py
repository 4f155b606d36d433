"""One call from end to end: the call, its stages and status, its event and its outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs._schema.secrets import (
    Secret,
    hide,
    hide_within,
    masked,
    secrets_in,
    secrets_of,
)
from toolstile_hookspecs.execution.principal import Principal, RequestTurn
from toolstile_hookspecs.limits import Cancellation, Deadline
from toolstile_hookspecs.results import ToolResult
from toolstile_hookspecs.support.callables import filled_at_once
from toolstile_hookspecs.support.process import new_id
from toolstile_hookspecs.support.text import wire_time

if TYPE_CHECKING:
    from toolstile_hookspecs.policies import PolicyDecision
    from toolstile_hookspecs.tools import Tool


# --- Names of attributes of an event

REPLAYED_EFFECT: Final = "toolstile.replayed_effect"
"""The id of the effect of a `Replay`."""
APPROVAL: Final = "toolstile.approval"
"""`approved`, `denied`, `edited`, `pending`, `unanswered`; `refused` or `kept` (the token)."""
APPROVAL_REASON: Final = "toolstile.approval_reason"
"""The reason of an answer, without secrets."""
APPROVAL_TOKEN: Final = "toolstile.approval_token"  # noqa: S105 - its name
"""The token that resumes a pending call."""
APPROVAL_TICKET: Final = "toolstile.approval_ticket"
"""The ticket that an approver gave to a pending call."""
DIFF: Final = "toolstile.diff"
"""The changes of a call, as an approver or a dry run shows them, without secrets."""
NO_CHANGES: Final = "no changes"
"""The diff of a call that would change nothing."""
DRY_RUN: Final = "toolstile.dry_run"
"""True for a dry run."""

NO_META: Final[Mapping[str, Any]] = MappingProxyType({})


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
    """The status of a call at its end."""

    SUCCEEDED = "succeeded"
    """Its changes are committed, joined to its parent's or, in a dry run, rolled back."""
    FAILED = "failed"
    """The handler gave a `ToolResult.error` or raised `ToolError`, or refused arguments."""
    UNKNOWN_TOOL = "unknown_tool"
    """No tool of that name, or one without a handler."""
    INVALID = "invalid"
    """The arguments do not fit."""
    DENIED = "denied"
    """A policy, an approver or a dry run did not allow it."""
    PENDING = "pending"
    """An approver will answer later; nothing ran."""
    ERROR = "error"
    """The handler, a plugin or the host raised an exception."""
    TIMED_OUT = "timed_out"
    """The handler took longer than the tool's timeout; it may still be running."""
    CANCELLED = "cancelled"
    """The call was cancelled from outside."""
    DEADLINE = "deadline"
    """The deadline of the evaluation passed."""
    CONFLICT = "conflict"
    """Another call changed data that this call had read."""
    COMMIT_FAILED = "commit_failed"
    """A participant failed after the decision to commit; the message says which parts are kept."""
    UNKNOWN = "unknown"
    """It is unknown whether it was kept, because the answer of the session's store was lost."""
    RAISED = "raised"
    """An exception that is not the call's own left `dispatch`."""


@filled_at_once
@dataclass(frozen=True)
class ToolCall:
    """A model's wish to call a tool.

    Args:
        name: The tool, by its name or its wire name.
        arguments: JSON text as the provider sent it, or an object; secrets are in clear.
        id: The host's id of the call, unique among all hosts and ordered by time. Give an id only
            if it is unique among the calls of its session; that of a provider need not be.
        cancellation: Keep it to cancel the call from outside.
        deadline: The end of the evaluation, beside the executor's own.
        meta: Data beside the arguments, such as `traceparent`.
        provider_id: The provider's id of the call, for the answer; "" without one.

    Example:
        >>> ToolCall("add", {"a": 1, "b": 2}, provider_id="call_0").provider_id
        'call_0'
    """

    name: str
    arguments: str | bytes | Mapping[str, Any] = field(default="{}", repr=False)
    id: str = field(default_factory=new_id)
    cancellation: Cancellation | None = None
    deadline: Deadline | None = None
    meta: Mapping[str, Any] = field(default_factory=lambda: NO_META)
    provider_id: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.name, self.arguments, self.id, self.cancellation, self.deadline)
        return self.__class__, (*fields, dict(self.meta), self.provider_id)  # no proxy is pickled

    @property
    def wire_id(self) -> str:
        """The id of the call for its caller: the provider's, else the host's."""
        return self.provider_id or self.id


RECONCILE_TOOL: Final = "ledger_reconcile"
"""The name of the ledger's own tool, which settles an unknown effect or undoes an owed one."""


class SettlingCall(ToolCall):
    """A call of the ledger to its own tool, which no stop ends; a stop ends it with any other."""


@dataclass(frozen=True)
class ToolInvoked:
    """The one event of a call, published for every outcome.

    Args:
        call: The call as it came.
        tool: The tool, or None where none was found.
        arguments: The params as strict JSON, defaults included; None without params.
        result: The result. Of a value that could be changed, every reader gets a copy made
            from `data`, or plain JSON where its type does not take that.
        status: The status at the end.
        stage: The last stage; `telemetry` after all stages.
        session_id: The session it ran in.
        parent_id: The id of the call that made this one, or None.
        timestamp: The moment it began; aware, UTC.
        duration: Seconds from lookup to the event.
        handler_duration: Seconds within the handler, None if it did not run.
        rolled_back: Whether its changes were rolled back.
        pending_parent: Whether its changes wait for its parent's commit.
        replayed: Whether the result came from a record, without running the handler.
        reruns: The number of further runs: after a conflict, or a changed row of its turn.
        decisions: The decisions of all policies, in order, if one did not allow the call.
        error: The exception behind a failure, or None.
        user_id: The id of the principal.
        attributes: The attributes that plugins set, by `plugin.name`.
        text: The text that the model reads, secrets masked.
        data: The value as compact JSON, None for a failure or an excluded value.
        held_params: The typed params, where no tool can read the arguments.
        auth: The user's credentials, to mask them in texts.
        result_secrets: The secrets in the value, by its type or schema.
        principal: The user or the program for whom it ran, without claims and credentials.
        request: The request at the time of the call; empty if it ended before its checks.
        transaction: The id of the transaction that the call is part of, or None.
        agent: The path of the agent that made it, such as `main/reader`.
        batch: The id of the batch that it was dispatched in, or None.
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
    text: str = field(default_factory=str)
    data: bytes | None = field(default_factory=lambda: None)
    held_params: Any = field(default=None, repr=False)
    auth: Secret | None = field(default=None, repr=False)
    result_secrets: tuple[str, ...] = field(default=(), repr=False)
    principal: Principal | None = None
    request: Sequence[RequestTurn] = field(default=(), repr=False)
    transaction: str | None = None
    agent: str = "main"
    batch: str | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Make the other form of the value, because only one form is kept."""
            if name == "text":
                told = vars(self).get("told")
                text = self.hide((self.data or b"").decode() if told is None else told)
                return text if told is None else vars(self).setdefault("text", text)
            if name == "data":
                return self.tool and self.tool.result_codec.encode(self.result.value)
            if name == "facts":  # the name of `attributes` until November 2026
                return self.attributes
            if name == "result":
                return ToolResult(vars(self)["message"], self._value())
            raise AttributeError(f"ToolInvoked has no attribute {name!r}")

    def _value(self) -> Any:
        if self.data is not None and self.tool is not None:
            with suppress(ValueError):
                return self.tool.result_codec.copy(self.data)
        return None if self.data is None else json.loads(self.data)

    def __repr__(self) -> str:
        """Return the call's ids, status and stage; all else may hold secrets."""
        return (
            f"ToolInvoked(tool={self.tool_name!r}, call={self.call_id!r}, status={self.status}, "
            f"stage={self.stage}, session={self.session_id!r})"
        )

    @property
    def params(self) -> Any:
        """A copy of the typed params, or None where parsing failed."""
        if self.arguments is None or self.tool is None:
            return self.held_params
        return self.tool.params_codec.copy(self.arguments)

    @property
    def tool_name(self) -> str:
        """The tool's own name, or the name in the call."""
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
    def pending(self) -> bool:
        """True when another event tells whether the changes of the call are kept."""
        return self.pending_parent or (self.transaction is not None and self.success)

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
        return hide(text, secrets) if (secrets := self._secrets()) else text

    def _secrets(self) -> tuple[str, ...]:
        held = [each for each in (self.held_params, self.auth) if each is not None]
        secrets = [*(secrets_in(held) if held else ()), *self.result_secrets]
        if self.arguments and self.tool and (schema := self.tool.params_codec.secret_schema()):
            secrets += secrets_of(json.loads(self.arguments), schema)
        return tuple(secrets)

    def envelope(self) -> dict[str, Any]:
        """Return the wire form: `tool`, `fetchedAt`, `data` or `error`; `version`, `replayed`."""
        fetched_at = wire_time(self.timestamp, self.duration)
        wire: dict[str, Any] = {"tool": self.tool_name, "fetchedAt": fetched_at}
        if not self.success:
            wire["error"] = self.text
        else:
            wire["data"] = (self.text or None) if self.data is None else json.loads(self.data)
        if self.tool is not None and self.tool.version is not None:
            wire["version"] = self.tool.version
        if REPLAYED_EFFECT in self.attributes:
            wire["replayed"] = True
        return wire


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call, as `dispatch` returns it.

    Args:
        event: The event of the call.
        held_result: The result itself, if the event has only copies.
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
        return self.event.result if self.held_result is None else self.held_result

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
        """The status at the end."""
        return self.event.status

    @property
    def stage(self) -> Stage:
        """The last stage."""
        return self.event.stage

    @property
    def success(self) -> bool:
        """True when the call succeeded."""
        return self.event.success

    @property
    def is_error(self) -> bool:
        """True when the host refused it or rolled it back; false for a tool's own failure."""
        return self.event.status not in {Status.SUCCEEDED, Status.FAILED}

    @property
    def approval_token(self) -> str | None:
        """The token that resumes a pending call, or None; give it only to those who may decide."""
        return self.event.attributes.get(APPROVAL_TOKEN)

    @property
    def approval_ticket(self) -> str | None:
        """The ticket of the question that a pending call waits for, or None."""
        return self.event.attributes.get(APPROVAL_TICKET)

    def envelope(self) -> dict[str, Any]:
        """Return the wire form; see `ToolInvoked.envelope`."""
        return self.event.envelope()

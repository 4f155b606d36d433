"""Policies: rules over calls, their decisions and their memory."""

# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from toolstile_hookspecs.errors import DefinitionError

if TYPE_CHECKING:
    from toolstile_hookspecs.context import ToolContext
    from toolstile_hookspecs.results import ToolResult
    from toolstile_hookspecs.sessions import SliceView
    from toolstile_hookspecs.tools import Tool

RESERVED: Final = "/reserved"
"""The suffix of records that `reserve` keeps and no rollback touches."""


class Verdict(StrEnum):
    """The verdict of a decision; deny wins over ask, and ask over allow."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The decision of a policy on a call.

    Args:
        allowed: Whether the call may run, possibly after asking.
        reason: Why not, or why to ask, for the model; or why to allow an otherwise denied call.
        asks: Whether a person has to decide.
        policy: The name of the policy; the host fills it in.
        by_person: Whether only a person's answer counts. The model does not read the reason.
        paths: The changed paths to decide on, which the person is shown first.

    Example:
        >>> PolicyDecision.deny("Call run_tests first, then retry deploy.").verdict
        <Verdict.DENY: 'deny'>
    """

    allowed: bool
    reason: str | None = None
    asks: bool = False
    policy: str | None = None
    by_person: bool = False
    paths: tuple[str, ...] = ()

    @classmethod
    def allow(cls) -> PolicyDecision:
        """Return the decision that allows the call."""
        return _ALLOW

    @classmethod
    def deny(cls, reason: str) -> PolicyDecision:
        """Return the decision that refuses the call; the model reads the reason unchanged."""
        return cls(allowed=False, reason=reason)

    @classmethod
    def ask(
        cls, reason: str, *, by_person: bool = False, paths: tuple[str, ...] = ()
    ) -> PolicyDecision:
        """Return the decision that lets a person decide, who reads the reason."""
        return cls(allowed=True, reason=reason, asks=True, by_person=by_person, paths=paths)

    @property
    def verdict(self) -> Verdict:
        """The decision in one word."""
        if not self.allowed:
            return Verdict.DENY
        return Verdict.ASK if self.asks else Verdict.ALLOW


_ALLOW = PolicyDecision(allowed=True)


@dataclass(frozen=True, slots=True)
class PolicyState:
    """The memory of one policy instance in a session, one record per instance.

    Args:
        policy_name: The unique name of the instance.
        invoked_tools: Tools that succeeded.
        invoked_keys: Pairs of tool and key, such as `("read_file", "a.txt")`.
        data: Anything else, as JSON values.
    """

    policy_name: str
    invoked_tools: frozenset[str] = frozenset()
    invoked_keys: frozenset[tuple[str, str]] = frozenset()
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, context: ToolContext, name: str) -> PolicyState:
        """Return the newest record of the named instance, or an empty one."""
        return record_of(context.session[PolicyState], name) or cls(name)

    @classmethod
    def reserved(cls, context: ToolContext, name: str) -> PolicyState:
        """Return the record of `reserve`, or an empty one; it survives rollbacks and resets."""
        return cls.of(context, f"{name}{RESERVED}")

    def save(self, context: ToolContext) -> None:
        """Make this record the newest, in `on_result`; one of `reserved` in `reserve`."""
        context.session[PolicyState].append(self)

    def with_tool(self, tool: str) -> PolicyState:
        """Return the record with one more tool that succeeded."""
        return replace(self, invoked_tools=self.invoked_tools | {tool})

    def with_key(self, tool: str, key: str) -> PolicyState:
        """Return the record with one more pair of tool and key."""
        return replace(self, invoked_keys=self.invoked_keys | {(tool, key)})


def record_of(view: SliceView[PolicyState], name: str) -> PolicyState | None:
    """Return the newest record of the named instance, or None."""
    # The host's own slice is indexed by name; others are searched.
    if (named := getattr(view, "named", None)) is not None:
        return named(name)  # type: ignore[no-any-return]
    return next(reversed(view.where(lambda record: record.policy_name == name)), None)


POLICY_METHODS: Final = ("check", "on_result")
"""The names of the methods that every policy has."""


class ToolPolicy(Protocol):
    """A rule over calls.

    Optional: `SupportsChangeCheck`, `SupportsReserve`, `SupportsFailure` and `SupportsRollback`;
    `wants_params = False` spares a copy of the params; `selector`, a `ToolSelector`, limits the
    policy to its tools; `governed` has names and globs of tools, of which the host must have at
    least one; `misfits(tools, may_come)` returns other faults of the configuration in words.
    `silence` takes the arguments of `check`, and returns why the policy has no opinion.
    """

    @property
    def name(self) -> str:
        """The unique name of this instance; two of one host must differ."""

    def check(
        self, tool: Tool[Any, Any], params: Any, *, context: ToolContext
    ) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Decide. Changes nothing and holds no lock; an exception denies."""

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> Awaitable[None] | None:
        """Remember a success, before the commit; an exception vetoes it."""


@runtime_checkable
class SupportsReserve(Protocol):
    """A policy that counts calls as they are admitted."""

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Take a place for the call or deny it, once per call, under the lock of `inflight`.

        It must not wait. The record that it saves is not rolled back with the call.
        """


@runtime_checkable
class SupportsRollback(Protocol):
    """A policy with a callback for rollbacks."""

    def on_rollback(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> None:
        """Learn that an admitted call's changes are gone; exceptions are logged."""


@runtime_checkable
class SupportsFailure(Protocol):
    """A policy that sees the result of a failed call, as `on_result` sees a success."""

    def on_failure(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """See the failed result of an admitted call, after its rollback; exceptions are logged.

        It must not wait. It can save a record of `PolicyState.reserved`, as `reserve` does.
        """


@dataclass(frozen=True, slots=True)
class PersistentPolicy:
    """A policy whose records outlive the session: the host keeps them in a file.

    A session begins with the file's records, and saves changes after each commit. Places that
    `reserve` takes count over all sessions of the file.

    Args:
        policy: The policy.
        file: The JSON file; several policies may share one.

    Raises:
        DefinitionError: When the policy has no name to find its records by.
    """

    policy: ToolPolicy
    file: Path

    def __post_init__(self) -> None:
        if not self.policy.name:
            policy = type(self.policy).__name__
            raise DefinitionError(f"{policy} has no name; give it one to find its records by.")

    @property
    def name(self) -> str:
        """The policy's name."""
        return self.policy.name

    def check(
        self, tool: Tool[Any, Any], params: Any, *, context: ToolContext
    ) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Let the policy decide."""
        return self.policy.check(tool, params, context=context)

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> Awaitable[None] | None:
        """Let the policy remember."""
        return self.policy.on_result(tool, params, result, context=context)

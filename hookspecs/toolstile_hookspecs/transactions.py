"""Participants of a call's transaction beside the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable


class Participant(Protocol):
    """Something to be kept or put back together with the call.

    Every `prepare` runs before any `commit`. All that can fail belongs in `prepare`; a `commit`
    that raises gives the outcome `commit_failed`. Each method may return an awaitable. Optional:
    `decides = True` for the one whose `prepare`, the last, is the decision, with a `key` for the
    recovery of the others; and `SupportsJoin`, `SupportsRecovery`, `SupportsDiff`.
    """

    def prepare(self) -> Awaitable[None] | None:
        """Do everything of the commit that can fail; an exception rolls the call back."""
        ...

    def commit(self) -> Awaitable[None] | None:
        """Make the change final; must not fail."""
        ...

    def rollback(self) -> Awaitable[None] | None:
        """Put everything back; called once, whether prepared or not."""
        ...


@runtime_checkable
class SupportsJoin(Protocol):
    """A participant that has something to do when a nested call has succeeded.

    Its `prepare` and `commit` come with those of the top-level call, `rollback` with that of
    any call around it.
    """

    def join(self) -> Awaitable[None] | None:
        """Take note of the success; an exception rolls the nested call back."""
        ...


@runtime_checkable
class Decider(Protocol):
    """Knows after a crash which calls were decided. Bind one to be asked.

    The host asks the `Decider` that is bound as a resource on behalf of every resource that
    is `SupportsRecovery`, when that is built.
    """

    def decided(self, key: str) -> bool | None:
        """Tell whether the call of a key was committed; None when that cannot be said."""
        ...


@runtime_checkable
class SupportsRecovery(Protocol):
    """A participant or resource that can finish after a crash what was decided before it."""

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """Roll forward what was decided, drop what was not.

        Args:
            decided: Tells of a top-level key whether it was; None while nobody can say.
        """
        ...


@runtime_checkable
class SupportsDiff(Protocol):
    """A participant, or the branch of a resource, that can show what its commit would change."""

    def diff(self) -> str | Awaitable[str]:
        """Return what would change, for a person to read; empty where nothing would.

        Called before `prepare`, for an approver and in a dry run. Changes nothing.
        """
        ...

"""Participants of a call's transaction beside the session, and transactional resources."""

# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from toolstile_hookspecs.context import ToolContext


class Participant(Protocol):
    """A change that is committed or rolled back together with the call.

    Every `prepare` runs before any `commit`. On an event loop plain methods run on a worker thread,
    unless `waits = False` says that none ever waits, and async ones on the loop. Optional are
    `SupportsJoin`, `SupportsRecovery` and `SupportsDiff`. One participant may have `decides = True`
    and a `key`: its `prepare` comes last and is the decision, which the others look up by the key
    after a crash. One with `contained = True` undoes all effects of a tool that is not contained.
    """

    def prepare(self) -> Awaitable[None] | None:
        """Do all of the commit that can fail; an exception rolls the call back."""

    def commit(self) -> Awaitable[None] | None:
        """Make the change final; an exception gives the outcome `commit_failed`."""

    def rollback(self) -> Awaitable[None] | None:
        """Undo the change; called once, whether prepared or not."""


@runtime_checkable
class SupportsJoin(Protocol):
    """A participant that acts when a nested call has succeeded.

    Its `prepare` and `commit` come with the top-level call's, `rollback` with any call's around it.
    """

    def join(self) -> Awaitable[None] | None:
        """Record the success; an exception rolls the nested call back."""


@runtime_checkable
class Decider(Protocol):
    """A resource that knows after a crash which calls were decided.

    The host asks it for every resource that is `SupportsRecovery`, when that is built.
    """

    def decided(self, key: str) -> bool | None:
        """Tell whether the call of a key was committed; None where that is not known."""


@runtime_checkable
class SupportsRecovery(Protocol):
    """A participant or resource that finishes after a crash the commits that were decided."""

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """Roll forward the calls for whose keys `decided` is True, and drop those with False."""


@runtime_checkable
class SupportsDiff(Protocol):
    """A participant, branch or `Exclusive` that shows its changes for approval or a dry run."""

    def diff(self) -> str | Awaitable[str]:
        """Return the changes for a person to read, or an empty text; called before `prepare`."""


# --- Transactional resources


class ResourceBranch(Participant, Protocol):
    """A call's own version of a `Branchable` resource.

    Its `commit` moves the changes to the resource, or to the parent's branch. It may have a
    `name`, shown in place of the type.
    """

    @property
    def resource(self) -> Any:
        """The object that the handler receives."""


@runtime_checkable
class Branchable(Protocol):
    """A resource that holds state and gives each call a branch of it."""

    def branch(self, context: ToolContext, parent: Any | None) -> ResourceBranch:
        """Return a branch, in O(1) at a call's first access; a nested call's is of its parent's."""


@runtime_checkable
class Exclusive(Protocol):
    """A resource that one call at a time has, from its first access to its end.

    On an event loop its methods are called as a `Participant`'s are, `begin` by `aget` only.
    """

    def begin(self) -> Any:
        """Begin, or for a nested call begin a savepoint; return its name."""

    def commit(self, savepoint: Any) -> None:
        """Keep the changes since `begin` returned the savepoint; see `SupportsPrepare`."""

    def rollback(self, savepoint: Any) -> None:
        """Undo the changes since `begin` returned the savepoint."""


@runtime_checkable
class SupportsPrepare(Protocol):
    """An `Exclusive` resource that checks before the commit whether its changes can be kept.

    An exception rolls the whole call back; after one in `commit`, other parts may be kept already.
    """

    def prepare(self, savepoint: Any) -> None:
        """Do all that can fail, newest first; a nested call's at its success, and its caller's."""

"""The participation of a call's resources in its transaction."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final

from toolstile.resources.exclusive import Claim, ExclusiveLock
from toolstile.resources.teardown import Failures, name_of, refuse_coroutine
from toolstile_hookspecs.errors import ResourceBusyError
from toolstile_hookspecs.support.callables import is_async_callable
from toolstile_hookspecs.transactions import ResourceBranch

# --- Roles


class Role(Enum):
    """The role of an instance in the transaction of a call; its method that begins it."""

    PLAIN = ""
    """None: calls are given the instance itself."""
    BRANCHABLE = "branch"
    """Each call is given a branch of it."""
    EXCLUSIVE = "begin"
    """One call tree at a time has it."""


def role_of(instance: object) -> Role:
    """Return how an instance takes part.

    The methods must be methods of its class and take the host's arguments: an object that
    happens to have a `commit()`, such as a database session, is plain.
    """
    if has_method(instance, "branch", 2):
        return Role.BRANCHABLE
    if has_savepoints(instance) or is_snapshotable(instance):
        return Role.EXCLUSIVE
    return Role.PLAIN


def has_savepoints(instance: object) -> bool:
    """Tell whether an instance is `Exclusive`."""
    exclusive = (("begin", 0), ("commit", 1), ("rollback", 1))
    return all(has_method(instance, method, arguments) for method, arguments in exclusive)


def is_snapshotable(instance: object) -> bool:
    """Tell whether an instance is `Snapshotable`."""
    return has_method(instance, "snapshot", 0) and has_method(instance, "restore", 1)


def has_method(instance: object, method: str, arguments: int) -> bool:
    """Tell whether an instance's class has a method that takes so many arguments."""
    function: Any = getattr(type(instance), method, None)
    if not callable(function):
        return False
    try:
        signature = inspect.signature(getattr(instance, method))
        signature.bind(*(None,) * arguments)
    except (TypeError, ValueError):
        return False
    return True


def may_wait(participant: Any, step: str) -> bool:
    """Tell whether a method of a participant or resource may block its thread.

    Every plain one may, but where `waits` says that none does; an async one is awaited.
    """
    if isinstance(participant, BranchPart):
        participant = participant.branch
    elif isinstance(participant, ExclusivePart):
        participant = participant.exclusive
    elif step == Role.EXCLUSIVE.value:
        participant = as_exclusive(participant)
    method = getattr(participant, step, None)
    waits = getattr(participant, "waits", True)
    return method is not None and waits and not is_async_callable(method)


# --- Participants


class _Snapshots:
    """A `Snapshotable` resource, as an `Exclusive` one whose savepoints are snapshots."""

    def __init__(self, resource: Any) -> None:
        self.waits: bool = getattr(resource, "waits", True)
        self.begin: Callable[[], Any] = resource.snapshot
        self.rollback: Callable[[Any], None] = resource.restore

    def commit(self, savepoint: Any) -> None:
        """Keep the changes, as they are."""


def as_exclusive(instance: Any) -> Any:
    """Return the methods that begin, commit and roll back the use of an exclusive instance."""
    return instance if has_savepoints(instance) else _Snapshots(instance)


MOMENT: Final = 0.001
"""Seconds between two looks at whether a nested call has ended."""
_LATE: Final = "The branch was made, or joined, when its call was over; let it end without it."


class BranchPart:
    """A call's branch of a `Branchable` resource, with the branch's other attributes.

    A branch that `joins` commits into that of the parent call, on its own success.
    """

    __slots__ = ("_done", "_resource", "branch", "joins")

    def __init__(self, branch: ResourceBranch, resource: object, *, joins: bool) -> None:
        self.branch = branch
        self.joins = joins
        self._resource = resource
        self._done = False

    @property
    def name(self) -> str:
        """The name of the branch, else of the resource's type."""
        own: str | None = getattr(self.branch, "name", None)
        return own or name_of(type(self._resource))

    @property
    def key(self) -> str | None:
        """The key of the call at a decider."""
        return getattr(self.branch, "key", None)

    @key.setter
    def key(self, key: str) -> None:
        branch: Any = self.branch
        if hasattr(branch, "key"):
            branch.key = key

    @property
    def open(self) -> bool:
        """True when it is neither committed nor rolled back."""
        return not self._done

    def prepare(self) -> Awaitable[None] | None:
        return self.branch.prepare()

    def commit(self) -> Awaitable[None] | None:
        self._done = True
        return self.branch.commit()

    def rollback(self) -> Awaitable[None] | None:
        if self._done:
            return None
        self._done = True
        return self.branch.rollback()

    def leave(self) -> None:
        """Leave the prepared changes to recovery, because the decision is unknown."""
        self._done = True
        leave = getattr(self.branch, "leave", None)
        if leave is not None:
            leave()

    def release(self) -> None:
        """Roll back changes that came too late; `ResourceError` if that must be awaited."""
        refuse_coroutine(self.rollback(), "Its rollback()", _LATE)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.branch, name)


class ExclusivePart:
    """The use of an `Exclusive` resource by a call, with the lock held for it.

    `inherit` returns the parent call's claim, which gets the lock at a rollback, if there is one.
    """

    __slots__ = ("_begun", "_done", "_inherit", "_savepoints", "claim", "exclusive")

    def __init__(
        self, claim: Claim, inherit: Callable[[ExclusiveLock], Claim | None] | None
    ) -> None:
        self.claim = claim
        self.exclusive = as_exclusive(claim.lock.resource)
        self._inherit = inherit
        self._savepoints: list[Any] = []
        self._begun = False
        self._done = False

    @property
    def name(self) -> str:
        return self.claim.lock.name

    @property
    def open(self) -> bool:
        """True while the lock is held and the changes are neither committed nor rolled back."""
        return not self._done and self.claim.held

    @property
    def diff(self) -> Any:
        """The method of the resource that shows its changes, or None."""
        return self.exclusive.diff if has_method(self.exclusive, "diff", 0) else None

    def begin(self) -> None:
        try:
            if not self._begun:
                self._savepoints.append(self.exclusive.begin())
                self._begun = True
        finally:
            if self.claim.ending:
                self.claim.open_to_nested()

    def prepare(self) -> Awaitable[None] | None:
        """Check that nothing builds on this call's changes, and let the resource prepare them.

        Waits for a nested call that was cancelled and is about to end. `ResourceBusyError`: a
        nested call that has not ended still uses the resource. Other errors are the resource's.
        """
        if self._is_about_to_be_free():
            return self._prepare_when_free()
        self._prepare()
        return None

    async def _prepare_when_free(self) -> None:
        while self._is_about_to_be_free():  # noqa: ASYNC110 - other threads end it
            await asyncio.sleep(MOMENT)
        self._prepare()

    def _is_about_to_be_free(self) -> bool:
        above = self.claim.above
        return above is not None and above.abandoned and not above.hopeless

    def _prepare(self) -> None:
        above = self.claim.begin_to_end()
        if above is not None:
            state = "was abandoned and has not ended" if above.abandoned else "has not ended"
            raise ResourceBusyError(
                f"{self.name} is still used by the nested call of {above.call}, which {state}; "
                "nothing is kept. Retry after that."
            )
        if has_method(self.exclusive, "prepare", 1):
            for savepoint in reversed(self._savepoints):
                self.exclusive.prepare(savepoint)

    def commit(self) -> None:
        if not self._done:
            self._done = True
            self._end("committing", self.exclusive.commit, None)

    def rollback(self) -> None:
        """Undo the changes and release the lock; a second time does nothing.

        The changes of an abandoned call are undone by `release`, once it has ended.
        """
        if not self.claim.abandoned:
            self.release()

    def release(self) -> None:
        """Undo the changes, now or as soon as nothing builds on them."""
        if not self._done:
            self._done = True
            self.claim.when_innermost(self._undo)

    def join(self, parent: ExclusivePart) -> None:
        """Merge a nested call's changes into its parent's."""
        self._done = True
        parent._savepoints += self._savepoints
        self.claim.leave(parent.claim)

    def _undo(self) -> None:
        lock = self.claim.lock
        heir = self._inherit(lock) if self._inherit is not None else None
        self._end("rolling back", self.exclusive.rollback, heir)

    def _end(self, doing: str, action: Callable[[Any], None], heir: Claim | None) -> None:
        failures = Failures(doing)
        try:
            # The newest first: it stands on those before it.
            for savepoint in reversed(self._savepoints):
                with failures.collecting(self.claim.lock.resource):
                    action(savepoint)
        finally:
            self.claim.leave(heir)
        failures.raise_any()

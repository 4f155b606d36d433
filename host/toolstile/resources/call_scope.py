"""The resources as one call sees them: `context.resources`."""

from __future__ import annotations

import logging
import threading
from _thread import RLock  # `threading.RLock` is a function around it
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar, cast, overload

from toolstile.resources.container import Container, Instance, ToolScope
from toolstile.resources.exclusive import (
    CallOwner,
    Claim,
    ExclusiveLock,
    OneShotGate,
    Waiter,
    lock_of,
)
from toolstile.resources.teardown import Failures, close_all, name_of
from toolstile.resources.transactional import BranchPart, ExclusivePart, Role, may_wait
from toolstile_hookspecs.errors import CallClosed, ResourceBusyError
from toolstile_hookspecs.services.workspace import HeldResource, SupportsHold
from toolstile_hookspecs.support.process import renewed_in_forks

T = TypeVar("T")
D = TypeVar("D")

Part = BranchPart | ExclusivePart

log = logging.getLogger(__name__)
# Held for moments: the second of a call's close and its handler's end gives everything back.
_ending = renewed_in_forks(__name__, "_ending", threading.Lock)
_MISSING: Any = object()
_NONE_HELD: Mapping[int, HeldResource] = MappingProxyType({})
_ENDED = "The call has ended, so it can use no resources any more."
_CALLER_ENDED = "The call that made this one has ended, so this one can use no resources any more."


class CallScope(Waiter):
    """The resources of one call.

    Plain ones are given as they are. Of a `Branchable` one the call gets its own branch, made at
    the first access; an `Exclusive` one it holds from the first access to its end. Both are then
    participants of the call. It may be used from several threads. With `fail_fast`, which a nested
    call begins with as its parent, an exclusive resource that is held is refused at once. The
    resources in `held` are kept, by their ids, while the call is run again.
    """

    __slots__ = (
        "_abandoned",
        "_closed",
        "_given",
        "_making",
        "_mutex",
        "_parent",
        "_parts",
        "_resources",
        "_shares",
        "_tools",
        "fail_fast",
        "held",
    )

    fail_fast: bool
    held: Mapping[int, HeldResource]

    def __init__(self, resources: Container, parent: CallScope | None, owner: CallOwner) -> None:
        self.owner = owner
        self.wakers = set()
        self._over = None
        self.fail_fast = parent is not None and parent.fail_fast
        self.held = _NONE_HELD
        self._resources = resources
        self._parent = parent
        self._given: dict[Any, Any] = {}
        self._parts: dict[int, Part] = {}
        self._tools: ToolScope | None = None
        self._mutex = RLock()
        # Held while a branch is made, which may never end: the call's end does not wait for it.
        self._making = RLock()
        # Whether a thread may still use its resources, though the call was abandoned.
        self._abandoned = False
        # Whether the call has ended; `_over` is also set for an abandoned call.
        self._closed = False
        # Whether nested calls may still have branches that stand on this call's.
        self._shares = True

    # --- Requests of the handler ---

    @overload
    def get(self, kind: type[T]) -> T: ...
    @overload
    def get(self, kind: type[T], default: D) -> T | D: ...
    def get(self, kind: type[Any], default: Any = _MISSING) -> Any:
        """Return the resource of a type, waiting for an exclusive one.

        Args:
            kind: The type.
            default: The value to return when nothing is bound for it.

        Raises:
            UnboundResourceError: When nothing is bound and no default is given.
            ResourceBusyError: When an exclusive one is held and cannot be waited for.
            ResourceError: When an exclusive one is held and this thread runs an event loop.
            DeadlineExceededError: When the deadline passes during the wait.
            CallClosed: When the call is over.
        """
        self.check_open()
        given = self._given.get(kind, _MISSING)
        if given is not _MISSING:
            return given
        built = self._resources.settled(kind)
        if built is not None and built.role is Role.PLAIN:
            return self._given.setdefault(kind, built.value)
        if default is not _MISSING and kind not in self._resources:
            return default
        built = built or self._own_tools().find(kind)
        if built.role is Role.EXCLUSIVE:
            for turn in self._turns(kind, built):
                self.block(turn, name_of(kind))
        return self._give(kind, built)

    async def aget(self, kind: type[T]) -> T:
        self.check_open()
        given = self._given.get(kind, _MISSING)
        if given is not _MISSING:
            return cast("T", given)
        built = self._resources.settled(kind)
        if built is None:
            built = await self.owner.off_loop(partial(self._own_tools().find, kind))
        if built.role is Role.EXCLUSIVE:
            for turn in self._turns(kind, built):
                await self.suspend(turn, name_of(kind))
            # No nested call steps in before this one has begun.
            self._exclusive_part(lock_of(built.value)).claim.begin_to_end()
        if may_wait(built.value, built.role.value):
            return cast("T", await self.owner.off_loop(partial(self._give, kind, built)))
        return cast("T", self._give(kind, built))

    def __contains__(self, kind: object) -> bool:
        return kind in self._resources

    def is_portable(self, kind: type[object]) -> bool:
        return self._resources.is_portable(kind)

    def portable_provider(self, kind: type[object]) -> str | None:
        return self._resources.portable_provider(kind)

    def present(self) -> list[Any]:
        """Return the resources that the call has so far, in order of first access."""
        return list({id(value): value for value in list(self._given.values())}.values())

    # --- Steps of the pipeline ---

    def types_of_parts(self) -> dict[int, type[Any]]:
        """Return the types of the branches, by the ids of their parts."""
        types = {id(self.part_of(type_)): type_ for type_ in list(self._given)}
        # A branch may have been made for a nested call only.
        for type_, built in list(self._resources.built.items()):
            if (part := self._parts.get(id(built.value))) is not None:
                types.setdefault(id(part), type_)
        return types

    def part_of(self, type_: type[Any]) -> Any:
        """Return the participant behind the call's resource of a type, or None."""
        given = self._given.get(type_)
        parts = [part for part in list(self._parts.values()) if isinstance(part, BranchPart)]
        return next((part for part in parts if part.branch.resource is given), None)

    def participants(self) -> list[Part]:
        """Return the participants of the call's transaction, in order of first access."""
        if not self._parts:
            return []
        # A nested call may be handing over at this moment. Of an abandoned call, a resource may be
        # making a part and never end; it is put back when that has ended.
        with nullcontext() if self._abandoned else self._mutex:
            return [part for part in list(self._parts.values()) if part.open]

    def held_alone(self) -> Iterator[str]:
        """Yield the names of the exclusive resources that the call holds."""
        return (part.name for part in self.participants() if isinstance(part, ExclusivePart))

    def close_to_nested(self) -> None:
        """Give nested calls no branch to stand on any more.

        A branch made while this call's own are kept or put back would be neither. Does not wait
        for a resource that is making one.
        """
        self._shares = False

    def preparing_to_join(self) -> list[Part]:
        """Return the parts to be prepared, after which joining the parent cannot fail."""
        parts = self.participants()
        return [part for part in parts if isinstance(part, ExclusivePart) or part.joins]

    def hand_over(self) -> None:
        """Hand the participants to the parent call's transaction; `CallClosed` if it is over."""
        if self._parent is not None:
            self._parent._adopt(self)  # noqa: SLF001 - of the same class

    def joining(self) -> list[BranchPart]:
        """Return the parts to be committed into the parent call's branches."""
        parts = self.participants()
        return [each for each in parts if isinstance(each, BranchPart) and each.joins]

    def undoing(self) -> Iterator[Part]:
        """Return the parts to be rolled back, newest first."""
        self.close_to_nested()
        return reversed(self.participants())

    def abandon(self, name: str | None = None, *, patience: float = 0.0) -> None:
        """Close the scope while a thread may still use its resources; wait for nothing.

        Exclusive resources stay locked, and resources of the call stay open, until
        `release_abandoned` is called. Others may begin to wait for the exclusive ones for
        `patience` seconds, and read `name`. Branches are rolled back as usual.
        """
        self._end(f"{name or self.owner} was abandoned, so it can use no resources any more.")
        self._abandoned = True
        for part in list(self._parts.values()):
            if isinstance(part, ExclusivePart):
                part.claim.abandon(patience=patience)

    @property
    def ended(self) -> bool:
        """True when it is closed, and its resources are not in use any more."""
        return self._closed and not self._abandoned

    def release_abandoned(self) -> None:
        """Roll back and give back the resources of an abandoned call, which has ended now.

        Its branches are for `rollback`, which can await, until the scope is closed.
        Failures are logged.
        """
        if not self._abandoned:
            return
        parts = reversed(list(self._parts.values()))
        # At once, though the call's end may be far: others wait for these.
        self._release(part for part in parts if isinstance(part, ExclusivePart))
        with _ending:
            self._abandoned = False
            is_closed = self._closed
        if is_closed:
            self._let_go()

    @property
    def has_to_close(self) -> bool:
        """True when something lives for the call that wants to be closed."""
        return self._tools is not None and bool(self._tools.owned)

    def close_unused(self) -> bool:
        """End a scope without anything to release. Return False if it has something."""
        if self._parts or self._tools is not None or self.wakers or self.held:
            return False
        self._over = self._over or _ENDED
        self._closed = True
        return True

    def close(self) -> None:
        """End the scope: every later access raises `CallClosed`.

        Rolls back and releases exclusive resources that are still held, and closes the resources
        of the call, newest first. Failures are logged: they change nothing for the call.
        """
        if self.close_unused():
            return
        self._end(_ENDED)
        self.release_held()
        with _ending:
            self._closed = True
            is_used = self._abandoned
        if not is_used:
            self._let_go()

    def hold_for_rerun(self) -> Iterator[HeldResource]:
        """Yield the claims to acquire before a call with a conflict is run again."""
        for key, part in list(self._parts.items()):
            # The rerun builds the resources of a call again.
            if key in self._resources.known and isinstance(part, BranchPart) and not part.joins:
                offered = part.branch
                held = offered.hold_for_rerun() if isinstance(offered, SupportsHold) else None
                if held is not None:
                    # Known first: interrupted while it waits, it is given back all the same.
                    self.held = {**self.held, key: held}
                    yield held

    def release_held(self) -> None:
        """Let other calls commit to the held resources."""
        for held in self.held.values():
            try:
                held.release()
            except Exception:
                log.exception("Giving back what %s held failed", self.owner)

    # --- giving ---

    def _own_tools(self) -> ToolScope:
        with self._mutex:
            if self._tools is None:
                self._tools = self._resources.tool_scope()
            return self._tools

    def _give(self, kind: type[Any], built: Instance) -> Any:
        value = built.value
        if built.role is Role.BRANCHABLE:
            value = self._branch_of(built).branch.resource
        elif built.role is Role.EXCLUSIVE:
            with self._mutex:
                self._exclusive_part(lock_of(built.value)).begin()
        self.check_open()
        if self._resources.keeps(kind):
            value = self._given.setdefault(kind, value)
        return value

    def _branch_of(self, built: Instance, *, nested: bool = False) -> BranchPart:
        parent = None
        if self._parent is not None and built.shared:
            parent = self._parent._branch_of(built, nested=True)  # noqa: SLF001 - of the same class
        key = id(built.value)
        with self._making:
            with self._mutex:
                self.check_open()
                if nested and not self._shares:
                    raise CallClosed(_CALLER_ENDED)
                part = self._parts.get(key)
            if isinstance(part, BranchPart):
                return part
            source = self.held.get(key, built.value)
            branch = source.branch(self.owner.context, parent.branch if parent else None)
            part = BranchPart(branch, built.value, joins=parent is not None)
            with self._mutex:
                is_late = nested and not self._shares
                if not is_late:
                    self._parts[key] = part
                if is_late or (self._over is not None and not self._abandoned):
                    part.release()
            if is_late:
                raise CallClosed(_CALLER_ENDED)
            return part

    def _turns(self, kind: type[Any], built: Instance) -> Iterator[OneShotGate]:
        """Yield the turns to wait for, one after the other, until the call has the resource."""
        part = self._exclusive_part(lock_of(built.value))
        if part.claim.held and part.claim.above is None:
            return
        first = self.owner.before_exclusive(kind)
        if first is not None and not first.granted:
            if self.fail_fast:
                raise ResourceBusyError(
                    f"{name_of(kind)} is not available yet, and this call may not wait for it. "
                    "Retry later."
                )
            yield first
        # A nested call can have stepped in when the turn had come, and was not taken yet.
        while not (part.claim.held and part.claim.above is None):
            ticket = part.claim.request(fail_fast=self.fail_fast)
            if not ticket.granted:
                yield ticket

    def _exclusive_part(self, lock: ExclusiveLock) -> ExclusivePart:
        with self._mutex:
            self.check_open()
            part = self._parts.get(id(lock.resource))
            if not isinstance(part, ExclusivePart):
                inherit = self._parent._inherit if self._parent else None  # noqa: SLF001 - of the same class
                part = ExclusivePart(Claim(lock, self.owner), inherit)
                self._parts[id(lock.resource)] = part
            return part

    # --- ending ---

    def _inherit(self, lock: ExclusiveLock) -> Claim | None:
        """Return the claim that inherits the lock of a nested call; None when over."""
        with suppress(CallClosed):
            return self._exclusive_part(lock).claim
        return None

    def _adopt(self, child: CallScope) -> None:
        for part in child.participants():
            if isinstance(part, ExclusivePart):
                part.join(self._exclusive_part(part.claim.lock))
            elif not part.joins:
                self._parts[id(part)] = part
                child._parts = {key: each for key, each in child._parts.items() if each is not part}
                # The resources behind its changes stay open until this call's end.
                theirs = child._own_tools()
                self._own_tools().owned += theirs.owned
                theirs.owned = []

    def _let_go(self) -> None:
        """Release and close everything; raise an interruption at the end."""
        released = self._release(reversed(list(self._parts.values())))
        closed = self._tools.leave() if self._tools is not None else close_all(())
        if text := closed.text():
            log.error("At the end of %s, %s.", self.owner, text)
        released.raise_interruption()
        closed.raise_interruption()

    def _release(self, parts: Iterable[Part]) -> Failures:
        failures = Failures("rolling back")
        for part in parts:
            try:
                part.release()
            except BaseException as error:
                log.exception("Rolling back %s of %s failed", part.name, self.owner)
                failures.add(part, error)
        return failures

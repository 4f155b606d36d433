"""The slices of a session, as they are used outside any call and as one call sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, NoReturn, Protocol

from toolstile.state.persistent_list import Copies, Items, ItemsView, SliceReader
from toolstile.state.replay import Change
from toolstile.state.store import Store, cleared, fault_of, keep, reduced, seeded
from toolstile_hookspecs.errors import CallClosed, StateError
from toolstile_hookspecs.sessions import Reducer, SlicePolicy, append_all
from toolstile_hookspecs.stored_names import is_of_policy


def refuse_log(kind: type[Any]) -> StateError:
    """Return the error for replacing items of a LOG."""
    return StateError(
        f"The slice of {kind.__qualname__} is a LOG: items are added and never removed. Keep "
        "items to be replaced in a STATE slice."
    )


class SessionSlice(SliceReader):
    """One slice of a session; every change is at once the newest state."""

    __slots__ = ("_kind", "_store")

    def __init__(self, store: Store, kind: type[Any]) -> None:
        self._store = store
        self._kind = kind

    def _items(self) -> Items:
        return self._store.items(self._kind)

    def append(self, item: Any) -> None:
        if self._kind in self._store.logs:
            self._store.log_at_once(self._kind, item)
        else:
            self._store.write(self._kind, append_all, item)

    def replace(self, *items: Any) -> None:
        self._refuse_log()
        self._store.write(self._kind, seeded, items)

    seed = replace

    def clear(self, predicate: Callable[[Any], bool] | None = None) -> None:
        """Remove all items, or those for which the predicate holds; calls under way conflict."""
        self._refuse_log()
        store = self._store
        with store.moving():
            head = store.newest
            before = store.found(head.slices, self._kind)
            items, _ = reduced(self._kind, before, cleared, predicate, store)
            store.put({self._kind: items})
            store.replace(store.newest.slices, head.records)

    def register(
        self, event: type[Any], reducer: Reducer, policy: SlicePolicy = SlicePolicy.STATE
    ) -> None:
        """Let events of a type change this slice, through a pure reducer.

        Args:
            event: The type of the events; exactly this one, not its subtypes.
            reducer: Returns the new items, or `Append` of those to add.
            policy: How the slice takes part in transactions; the same for all its reducers.

        Raises:
            StateError: The slice already takes part differently, the event is not a type, the
                reducer not a plain function or the policy not a `SlicePolicy`.
        """
        fault = fault_of(event, reducer, "reducer")
        if fault is None and not isinstance(policy, SlicePolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            fault = f"{policy!r} is not a policy; give SlicePolicy.STATE or SlicePolicy.LOG"
        if fault is not None:
            raise StateError(
                f"No reducer is registered for the slice of {self._kind.__qualname__}: {fault}."
            )
        self._store.register(self._kind, event, reducer, policy)

    def _refuse_log(self) -> None:
        if self._kind in self._store.logs:
            raise refuse_log(self._kind)


class CallSlice(SliceReader):
    """A slice as a call sees it, which registers no reducers."""

    __slots__ = ("kind",)

    kind: type[Any]

    def register(
        self,
        event: type[Any],
        reducer: Reducer,  # noqa: ARG002 - the protocol's
        policy: SlicePolicy = SlicePolicy.STATE,  # noqa: ARG002 - the protocol's
    ) -> None:
        raise StateError(
            f"A reducer of {event.__qualname__} for the slice of {self.kind.__qualname__} cannot "
            "be registered inside a call, which may be rolled back. Register it on the session, "
            "before its calls."
        )


class BranchedLog(CallSlice):
    """A LOG slice as a call sees it: shared by all, never rolled back.

    `check` raises unless the call may read or, given True, write.
    """

    __slots__ = ("_check", "_store")

    def __init__(self, store: Store, kind: type[Any], check: Callable[[bool], None]) -> None:
        self._store = store
        self.kind = kind
        self._check = check

    def _items(self) -> Items:
        self._check(False)  # noqa: FBT003 - to read
        return self._store.items(self.kind)

    def append(self, item: Any) -> None:
        self._check(True)  # noqa: FBT003 - to write
        self._store.append_log(self.kind, keep(self.kind, (item,)))

    def _refuse(self, *given: object, **options: object) -> NoReturn:  # noqa: ARG002 - any
        raise refuse_log(self.kind)

    replace = seed = clear = _refuse


# --- The slices of a call's branch


class CellOwner(Protocol):
    """The part of a branch that its cells use."""

    frozen: bool
    lock: RLock
    log: list[Change]


FROZEN = (
    "The session is read-only during checks and approvals. Change state in the handler before it "
    "returns, in on_result or, for a policy's own record, in reserve."
)


class Cell(CallSlice):
    """One STATE slice on a branch, and the view of it that the handler uses.

    Every write is kept as a reducer with its event, so that it can be applied again where other
    calls have added to the slice since `origin`, the version that the branch started from.
    """

    __slots__ = (
        "_copies",
        "_owner",
        "closed",
        "items",
        "ops",
        "origin",
        "read",
        "replaced",
        "rewritten",
        "token",
    )

    def __init__(self, owner: CellOwner, kind: type[Any], origin: Items) -> None:
        self._owner = owner
        self._copies = Copies()
        self.kind = kind
        self.origin = origin
        self.items = origin
        self.ops: list[tuple[Reducer, Any]] = []
        self.read = False  # true when the branch may depend on the items here
        self.replaced = False  # true when a write replaced the items
        self.rewritten = False
        """True when the items are more than the original ones with some added."""
        # Not the cell itself: items, which the cell has, would make a circle with it, and each
        # call would leave that to the garbage collector.
        self.token = object()  # the owner of the items that are made here
        self.closed: str | None = None  # the reason why it cannot be used any more

    @property
    def name(self) -> str:
        """The name of its type; a stored slice may have nothing else yet."""
        kind: Any = self.kind
        return kind if isinstance(kind, str) else str(kind.__qualname__)

    def latest(self) -> Any:
        items = self._items()
        return self._copies(items.last()) if items.length else None

    def all(self) -> Sequence[Any]:
        return ItemsView(self._items(), self._copies)

    def append(self, item: Any) -> None:
        with self._owner.lock:
            self._check_writable()
            new = keep(self.kind, (item,))
            self.ops.append((append_all, new[0]))
            if not is_of_policy(self.kind):
                self._owner.log.append(Change("append", self.kind, (new[0],)))
            self.items = self.items.extended(self.token, new)

    def replace(self, *items: Any) -> None:
        self._replace(seeded, keep(self.kind, items))

    seed = replace

    def clear(self, predicate: Callable[[Any], bool] | None = None) -> None:
        self._replace(cleared, predicate)

    @property
    def guarded(self) -> bool:
        """True when the branch conflicts when another call changes the slice."""
        return self.read or self.replaced

    def put(self, op: tuple[Reducer, Any], items: Items, *, rewritten: bool) -> None:
        self.ops.append(op)
        self.items = items
        if rewritten:
            self.rewritten = True

    def put_back(self, items: Items) -> None:
        """Replace the items by another version of the slice."""
        self._put_over((seeded, ItemsView(items)), items)

    def replayed(self, origin: Items) -> tuple[Items, bool]:
        """Return another version after the writes, and whether they rewrite it."""
        items, rewritten = origin, False
        for reducer, event in self.ops:
            items, is_new = reduced(self.kind, items, reducer, event, self.token)
            rewritten = rewritten or is_new
        return items, rewritten

    def moved(self, origin: Items, items: Items, *, rewritten: bool) -> None:
        """Stand on another version, with the items that the writes make of it."""
        self.origin, self.items, self.rewritten = origin, items, rewritten

    def applied(self, taker: object, to: Items) -> Items:
        """Return the writes applied to a version for a holder, which may add to it in place."""
        if self.rewritten:
            return self.items.handed(self.token, taker)
        return to.extended(taker, self.items.after(self.origin.length))

    def take(self, other: Cell) -> None:
        """Take over the writes of the same slice on a branch forked from this one's."""
        self.items = other.applied(self.token, self.items)
        self.ops += other.ops
        self.replaced = self.replaced or other.replaced
        self.rewritten = self.rewritten or other.rewritten

    def _items(self) -> Items:
        if self.closed is not None:
            raise CallClosed(self.closed)
        if not self._owner.frozen:
            self.read = True
        return self.items

    def _replace(self, reducer: Reducer, event: Any) -> None:
        with self._owner.lock:
            self._check_writable()
            items, _ = reduced(self.kind, self.items, reducer, event, self.token)
            self._put_over((reducer, event), items)

    def _put_over(self, op: tuple[Reducer, Any], items: Items) -> None:
        self.replaced = True
        self.put(op, items, rewritten=True)
        self._owner.log.append(Change("seed", self.kind, [*items]))

    def _check_writable(self) -> None:
        if self.closed is not None:
            raise CallClosed(self.closed)
        if self._owner.frozen:
            raise StateError(FROZEN)

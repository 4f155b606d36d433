"""A STATE slice on a branch: its items at the fork, its writes, whether it was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, Protocol

from toolstile.state.persistent_list import Copies, Items, ItemsView
from toolstile.state.reducers import cleared, keep, reduced, seeded
from toolstile.state.replay import Change
from toolstile.state.slices import CallSlice
from toolstile_hookspecs.errors import CallClosed, StateError
from toolstile_hookspecs.sessions import Reducer, append_all
from toolstile_hookspecs.stored_names import is_of_policy


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

    Every write is kept as a reducer with its event, so that it can be applied again where
    other calls have added to the slice meanwhile.

    Args:
        owner: The branch.
        kind: The type of the items.
        origin: The version that the branch started from.
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
        self.read = False
        """True when the branch may depend on the items here."""
        self.replaced = False
        """True when a write replaced the items."""
        self.rewritten = False
        """True when the items are more than the original ones with some added."""
        # Not the cell itself: items, which the cell has, would make a circle with it, and each
        # call would leave that to the garbage collector.
        self.token = object()
        """The owner of the items that are made here."""
        self.closed: str | None = None
        """The reason why it cannot be used any more."""

    @property
    def name(self) -> str:
        """The name of its type; a stored slice may have nothing else yet."""
        kind: Any = self.kind
        return kind if isinstance(kind, str) else str(kind.__qualname__)

    def latest(self) -> Any:
        """Return the newest item, or None."""
        items = self._items()
        return self._copies(items.last()) if items.length else None

    def all(self) -> Sequence[Any]:
        """Return all items, oldest first; costs the same however many there are."""
        return ItemsView(self._items(), self._copies)

    def append(self, item: Any) -> None:
        """Add an item at the end."""
        with self._owner.lock:
            self._check_writable()
            new = keep(self.kind, (item,))
            self.ops.append((append_all, new[0]))
            if not is_of_policy(self.kind):
                self._owner.log.append(Change("append", self.kind, (new[0],)))
            self.items = self.items.extended(self.token, new)

    def replace(self, *items: Any) -> None:
        """Replace all items by these."""
        self._replace(seeded, keep(self.kind, items))

    seed = replace

    def clear(self, predicate: Callable[[Any], bool] | None = None) -> None:
        """Remove all items, or those for which the predicate holds."""
        self._replace(cleared, predicate)

    @property
    def guarded(self) -> bool:
        """True when the branch conflicts when another call changes the slice."""
        return self.read or self.replaced

    def put(self, op: tuple[Reducer, Any], items: Items, *, rewritten: bool) -> None:
        """Keep the items that a reducer made."""
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
        """Return the writes applied to a version, for a branch or store to hold.

        Args:
            taker: The holder, which may add to it in place.
            to: The version; its items are the original ones.
        """
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

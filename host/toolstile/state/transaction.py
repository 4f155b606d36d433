"""The transaction of a branch: its reads, its changes, and their commit to the base."""

from __future__ import annotations

from _thread import RLock  # `threading.RLock` is a function around it
from collections.abc import Callable, Mapping
from typing import Any, Final

from toolstile.state.persistent_list import Items
from toolstile.state.policy_records import NO_RECORDS, Overlay, Records, overlaid
from toolstile.state.replay import AppliedEffect, Change
from toolstile.state.request_slice import differ_besides_request
from toolstile.state.slices import FROZEN, Cell
from toolstile.state.store import Deciding, Head, Store
from toolstile.state.undo_notes import noted_in
from toolstile_hookspecs.errors import CallClosed, ConflictError, StateError
from toolstile_hookspecs.policies import PolicyState

OVER = "The call is over, so it can neither read nor change the session any more."
CALLER_ENDED = "The call that made this one has ended, so this one can change nothing more."

# In the place of the children of one from which none is forked any more.
_NONE_ANY_MORE: Final[set[Transaction]] = set()


class Transaction:
    """A base, pinned as it was at the fork, with a read set and a write set over it.

    Without a parent, the base is the session. Once `frozen`, writes are refused, and reads do
    not count. Writes hold the lock. `log` has the changes in their order.
    """

    # Slots, all of them filled: a fork is on every call's path.
    __slots__ = (
        "_cells",
        "_children",
        "_closed",
        "_effect_id",
        "_head",
        "_overlay",
        "_parent",
        "_pins",
        "_store",
        "_whole",
        "frozen",
        "lock",
        "log",
    )

    _head: Head

    def __init__(self, store: Store, parent: Transaction | None = None) -> None:
        self.lock = RLock()
        self.frozen = False
        self._store = store
        self._parent = parent
        self._children: set[Transaction] | None = None
        self._cells: dict[type[Any], Cell] = {}
        self._overlay: Overlay = NO_RECORDS
        # Whether it depends on every slice, also on those without a cell.
        self._whole = False
        self._closed: str | None = None
        self.log: list[Change] = []
        # The id under which its changes are recorded, if they are.
        self._effect_id: str | None = None
        head = self._head = store.head
        self._pins = head.slices if parent is None else parent.adopt(self)

    def _pin(self) -> None:
        head = self._head = self._store.head
        self._pins = head.slices if self._parent is None else self._parent.adopt(self)

    def catch_up(self) -> None:
        """Stand on the newest state of the base, if nothing depends on the present one."""
        with self.lock:
            if self._closed is None and not self._is_used():
                if self._parent is not None:
                    self._parent.catch_up()
                self._pin()

    def _is_used(self) -> bool:
        within = (each._is_used() for each in tuple(self._children or ()))  # noqa: SLF001 - of the same class
        return bool(self._cells or self._overlay or self.log or self._whole) or any(within)

    # --- access

    def check(self, to_write: bool = False) -> None:  # noqa: FBT001, FBT002 - on the hot path
        """Raise unless it is open and, to write, not frozen."""
        if self._closed is not None:
            raise CallClosed(self._closed)
        if to_write and self.frozen:
            raise StateError(FROZEN)

    def cell(self, kind: type[Any]) -> Cell:
        cell = self._cells.get(kind)
        if cell is None:
            cell = self._cells.setdefault(kind, Cell(self, kind, self.at_fork(kind)))
        return cell

    def at_fork(self, kind: type[Any]) -> Items:
        found = self._pins.get(kind)
        if found is not None:
            return found
        if self._parent is not None:
            return self._parent.at_fork(kind)
        return self._store.found(self._pins, kind)

    def added_since(self, kind: type[Any]) -> list[Any]:
        """Return other calls' additions to a STATE slice after the top-level call's fork."""
        if self._parent is not None:
            return self._parent.added_since(kind)
        store = self._store
        length = store.found(self._head.slices, kind).length
        return store.found(store.head.slices, kind).after(length)

    def all_at_fork(self) -> Mapping[type[Any], Items]:
        if self._parent is None:
            return self._pins
        return {**self._parent.all_at_fork(), **self._pins}

    def now(self, kind: type[Any]) -> Items:
        cell = self._cells.get(kind)
        return self.at_fork(kind) if cell is None else cell.items

    def all_now(self) -> dict[type[Any], Items]:
        """Return every STATE slice with this branch's changes; under the lock."""
        return {**self.all_at_fork(), **self.touched()}

    def touched(self) -> dict[type[Any], Items]:
        """Return the STATE slices that were used here, as they are here."""
        return {kind: cell.items for kind, cell in self._cells.items()}

    def read_records(self) -> Records:
        self.check()
        parent = self._parent
        below = self._store.newest.records if parent is None else parent.read_records()
        return overlaid(below, self._overlay)

    def read_record(self, name: str) -> PolicyState | None:
        if self._closed is not None:
            self.check()
        if name in self._overlay:
            return self._overlay[name]
        parent = self._parent
        return self._store.newest.records.get(name) if parent is None else parent.read_record(name)

    def _update_records(self, update: Overlay) -> None:
        # A new mapping each time: readers in other threads may be looking at the old one.
        kept = {name: record for name, record in self._overlay.items() if name not in update}
        self._overlay = {**kept, **update}

    # --- children

    def adopt(self, child: Transaction) -> Mapping[type[Any], Items]:
        """Take a child, and return the slices that differ from those at this one's own fork."""
        with self.lock:
            self.check()
            if self._children is None:
                self._children = set()
            elif self._children is _NONE_ANY_MORE:
                raise CallClosed(CALLER_ENDED)
            self._children.add(child)
            return self.touched()

    def release(self, child: Transaction) -> None:
        if self._children is not None:
            self._children.discard(child)

    def close_to_nested(self) -> None:
        """Close the branches forked from this one, and fork no more: it is about to be kept."""
        with self.lock:
            self._close_children(CALLER_ENDED)
            self._children = _NONE_ANY_MORE

    def join(self, child: Transaction) -> None:
        """Take over the changes and reads of a child."""
        with self.lock:
            self.check(to_write=True)
            # It may have been closed at this very moment.
            child.check()
            child._move()
            self.note_reads(child)
            for kind, theirs in child._cells.items():
                if theirs.ops:
                    self.cell(kind).take(theirs)
            if child._overlay:
                self._update_records(child._overlay)
            self.log += [
                change if change.effect_id else change._replace(effect_id=child._effect_id)
                for change in child.log
            ]

    def note_reads(self, child: Transaction) -> None:
        with self.lock:
            if self._closed is not None:
                return
            self._whole = self._whole or child._whole
            for kind, theirs in child._cells.items():
                if theirs.read:
                    self.cell(kind).read = True

    # --- ending

    def close(self, reason: str) -> None:
        """Drop all changes; from now on every access raises `CallClosed` with the reason.

        Does not wait for a handler that is just writing, and closes the branches forked from
        this one too. A branch that is closed already keeps its reason.
        """
        if self._closed is None:
            self._shut(reason)

    def _close_children(self, reason: str) -> None:
        if self._children is not None:
            for child in tuple(self._children):
                child.close(reason)
            self._children = None

    @property
    def has_changed(self) -> bool:
        """True when STATE slices or records are others here than in the base."""
        return bool(self._overlay) or any(cell.ops for cell in self._cells.values())

    def _commit_to_store(self, deciding: Deciding | None) -> None:
        changed = [cell for cell in self._cells.values() if cell.ops]
        has_changed = bool(changed or self._overlay)
        if not has_changed and (deciding is None or not deciding.is_durable):
            return
        store = self._store
        with store.moving(deciding):
            for cell in changed:
                if cell.kind in store.logs:
                    raise ConflictError(
                        f"The slice of {cell.kind.__qualname__} became a LOG while the call ran, "
                        "which had changed it as STATE, so nothing of the call was kept; retry it."
                    )
            if changed or deciding is not None:
                self._move()
            if deciding is not None and not store.is_stored:
                deciding.contribute(None)
                if store.head is not self._head:
                    deciding.is_void = True
                    raise StateError(
                        "What records a call has changed its session meanwhile, and one of the two "
                        "would be lost. Change the session in `prepare`."
                    )
            noted = noted_in(deciding.note, store, changed) if deciding and deciding.note else {}
            if has_changed or noted:
                slices = {cell.kind: cell.applied(store, cell.origin) for cell in changed}
                records = overlaid(store.newest.records, self._overlay) if self._overlay else None
                store.put({**slices, **noted}, records)
            if not store.is_stored:
                # At once: an interruption from here on comes when the changes are kept.
                self._closed = OVER
        self._closed = OVER

    def _move(self) -> None:
        """Stand on the base's newest state, or raise; either wholly or not at all."""
        parent, newest = self._parent, self._store.head
        if parent is not None:
            with parent.lock:
                parent.check()
                touched = parent.touched()
                has_moved = any(items is not self.at_fork(kind) for kind, items in touched.items())
                self._move_cells(parent.now, has_moved=has_moved)
                self._pins = touched
            return
        if newest is self._head:
            return
        if newest.epoch != self._head.epoch:
            raise ConflictError(
                "The session was restored, reset or cleared while the call ran, so nothing of the "
                "call was kept; retry it."
            )
        self._move_cells(
            lambda kind: self._store.found(newest.slices, kind),
            has_moved=self._whole and differ_besides_request(self._pins, newest.slices),
        )
        self._head, self._pins = newest, newest.slices

    def _move_cells(self, base: Callable[[type[Any]], Items], *, has_moved: bool) -> None:
        moved = [
            (cell, now)
            for kind, cell in self._cells.items()
            if (now := base(kind)) is not cell.origin
        ]
        names = sorted(cell.name for cell, _ in moved if cell.guarded)
        if not names and self._whole and has_moved:
            names = ["the session"]
        if names:
            raise ConflictError(
                f"Another call changed {', '.join(names)}, which this call had read or replaced. "
                "Retry this call."
            )
        for cell, now in moved:
            here = cell.items.after(cell.origin.length) if cell.kind is AppliedEffect else ()
            if any(item in here for item in now.after(cell.origin.length) if here):
                raise ConflictError(
                    "Another call has meanwhile carried the same recorded effect over to this "
                    "session. Retry this call."
                )
        replayed = [(cell, now, *cell.replayed(now)) for cell, now in moved]
        for cell, now, items, rewritten in replayed:
            cell.moved(now, items, rewritten=rewritten)

    def _shut(self, reason: str) -> None:
        """Drop everything and refuse later use; waits for no lock that a handler may hold."""
        self._closed = reason
        self._close_children(reason)
        if self._parent is not None:
            self._parent.release(self)
        for cell in tuple(self._cells.values()):
            cell.closed = reason
        self._cells, self._overlay, self.log = {}, NO_RECORDS, []
        self._whole, self._effect_id = False, None

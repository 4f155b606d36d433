"""The branch of a session that a call works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any, TypeVar, cast

from toolyard.state.cells import FROZEN, Cell
from toolyard.state.changes import described
from toolyard.state.copies import private
from toolyard.state.items import EMPTY, Items
from toolyard.state.records import (
    Overlay,
    Records,
    RecordSlice,
    is_reserved,
    overlaid,
    put_over,
    refuse_reserved,
)
from toolyard.state.reducers import keep
from toolyard.state.reserving import ReservingView
from toolyard.state.slices import BranchedLog
from toolyard.state.snapshot import Snapshot, fitting
from toolyard.state.store import Head, Store, check_kind
from toolyard_hookspecs.errors import CallClosed, ConflictError, StateError
from toolyard_hookspecs.policies import PolicyState
from toolyard_hookspecs.sessions import SessionProtocol, SliceView

S = TypeVar("S")
E = TypeVar("E")

_OVER = "The call is over, so it can neither read nor change the session any more."


class Branch:
    """A session as one call sees it: its state at the fork, and what the call changed.

    Forking costs a pointer, rolling back drops the changes, committing costs what changed.

    Args:
        store: The session's store.
        parent: The branch that this one commits into; None for the session itself.
    """

    def __init__(self, store: Store, parent: Branch | None = None) -> None:
        self.frozen = False
        self.lock = RLock()
        self._store = store
        self._parent = parent
        self._cells: dict[type[Any], Cell] = {}
        self._overlay: Overlay = {}
        self._events: list[object] = []
        self._children: set[Branch] | None = None
        self._closed: str | None = None
        self._whole = False
        """Whether what it did depends on every slice, also on those that it does not have."""
        self._pin()

    def _pin(self) -> None:
        self._head = self._store.head
        if self._parent is None:
            self._pins = self._head.slices
        else:
            self._pins = self._parent.adopt(self)

    # What a handler uses.

    @property
    def id(self) -> str:
        """The session's id."""
        return self._store.id

    @property
    def dispatcher(self) -> BranchDispatcher:
        """Where events are published, to be heard after the commit."""
        return BranchDispatcher(self)

    def __getitem__(self, kind: type[S]) -> SliceView[S]:
        """Return the slice of a type."""
        cell = self._cells.get(kind)
        if cell is not None:
            return cell
        return cast("SliceView[S]", self._slice(kind))

    def dispatch(self, event: object) -> None:
        """Let the reducers registered for the event's type change their slices: all or none.

        Raises:
            CallClosed: The call is over.
            StateError: The branch is frozen, or a reducer did not return items.
        """
        registered = self._store.reducers.get(type(event))
        with self.lock:
            self._check(to_write=True)
            if registered is None:
                self._events.append(event)
            else:
                self._reduce(private(event), registered)

    def snapshot(self, *, tag: str | None = None) -> Snapshot:
        """Return the state as it is now; counts as reading every slice."""
        with self.lock:
            self._check()
            if not self.frozen:
                self._whole = True
            head = Head(self.all_slices(), self.read_records(), self._head.epoch)
        return Snapshot(self.id, tag, head, self._store.lineage)

    def restore(self, snapshot: Any) -> None:
        """Put the state back, on this branch; counts as replacing every slice.

        Raises:
            SnapshotError: The snapshot is of another session.
        """
        head = fitting(snapshot, self._store.lineage)
        self._put_back(head.slices, head.records)

    def reset(self) -> None:
        """Empty all STATE slices, on this branch; logs and reducers stay."""
        self._put_back({}, {})

    def clone(self, *, id: str | None = None) -> SessionProtocol:  # noqa: A002 - it is the id
        """Return an independent session with the same state and reducers."""
        snapshot = self.snapshot()
        return self._store.face(self._store.cloned(id, snapshot.head))

    # What the pipeline uses.

    @property
    def closed(self) -> bool:
        """Whether it was committed, rolled back or closed."""
        return self._closed is not None

    @property
    def changed(self) -> bool:
        """Whether it has writes."""
        return bool(self._overlay) or any(cell.ops for cell in self._cells.values())

    def fork(self) -> Branch:
        """Return a branch that commits into this one.

        Raises:
            CallClosed: This one is closed.
        """
        return Branch(self._store, self)

    def refork(self) -> None:
        """Drop all writes and reads, start from the newest state of the base, and reopen."""
        with self.lock:
            self._shut("The call is run again, from the newest state.")
            self._closed = None
            self.frozen = False
            self._pin()

    def freeze(self) -> None:
        """Refuse writes, and keep reads out of the read set, until `thaw`."""
        self.frozen = True

    def thaw(self) -> None:
        """Allow writes again."""
        self.frozen = False

    def reserving(self) -> ReservingView:
        """Return the view that a policy's `reserve` gets: reads here, reserves on the session."""
        return ReservingView(self, self.peek, self._store)

    def validate(self) -> None:
        """Check that nothing this branch read or replaced has changed, and stand on the newest.

        What was only appended, or reduced without having been read, is put on top of what
        others have added meanwhile.

        Raises:
            ConflictError: Another call changed such a slice; names all of them.
            CallClosed: It is closed.
        """
        with self.lock:
            self._check()
            self._move()

    def commit(self) -> None:
        """Make the changes those of the base, close, and (top level) publish the events.

        The caller has validated and holds the commit turn, so nothing moves meanwhile but by
        direct use of the session, outside any call. Where such a use touches what the branch
        read, nothing is committed.

        Raises:
            ConflictError: See above; the branch stays open.
            CallClosed: It, or its parent, is closed.
        """
        with self.lock:
            self._check()
            events = self._events
            if self._parent is None:
                if self._overlay or self._cells:
                    self._commit_to_store()
            else:
                self._parent.join(self)
            self._shut(_OVER)
        if self._parent is None and events:
            self._store.subscribers.publish_all(events)

    def rollback(self) -> None:
        """Drop all changes and close. What was read still counts as read by the parent."""
        with self.lock:
            if self._closed is None and self._parent is not None:
                self._parent.note_reads(self)
            self._shut(_OVER)

    def close(self, reason: str) -> None:
        """Drop all changes; from now on every access raises `CallClosed` with the reason.

        Does not wait for a handler that is just writing, and closes the branches forked from
        this one too.

        Args:
            reason: What the call was told, or would be.
        """
        if self._closed is None:
            self._shut(reason)

    def describe_changes(self) -> list[str]:
        """Return one line for each slice that changed, for a person to read."""
        with self.lock:
            cells = [cell for cell in self._cells.values() if cell.ops]
            return described(cells, self._overlay)

    # What slices and child branches use.

    def read_records(self) -> Records:
        """Return the newest records: those of the base, with this branch's over them."""
        self._check()
        below = self._store.head.records if self._parent is None else self._parent.read_records()
        return overlaid(below, self._overlay)

    def write_records(self, update: Mapping[str, PolicyState | None]) -> None:
        """Update records, on this branch."""
        with self.lock:
            self._check(to_write=True)
            for name in update:
                refuse_reserved(name)
            put_over(self._overlay, update)

    def peek(self, kind: type[Any]) -> Items:
        """Return the items of a slice without counting as a read."""
        self._check()
        return self._store.logs[kind] if kind in self._store.logs else self.now(kind)

    def now(self, kind: type[Any]) -> Items:
        """Return the newest version of a STATE slice here."""
        cell = self._cells.get(kind)
        return self._at_fork(kind) if cell is None else cell.items

    def all_slices(self) -> dict[type[Any], Items]:
        """Return the newest version of every STATE slice."""
        below = self._pins if self._parent is None else {**self._parent.at_fork(), **self._pins}
        return {**below, **{kind: cell.items for kind, cell in self._cells.items()}}

    def at_fork(self) -> Mapping[type[Any], Items]:
        """Return every STATE slice as it was at the fork."""
        if self._parent is None:
            return self._pins
        return {**self._parent.at_fork(), **self._pins}

    def publish(self, event: object) -> None:
        """Keep an event until the commit."""
        with self.lock:
            self._check(to_write=True)
            self._events.append(event)

    def adopt(self, child: Branch) -> Mapping[type[Any], Items]:
        """Take a child, and return the slices that differ from this branch's own fork."""
        with self.lock:
            self._check()
            if self._children is None:
                self._children = set()
            self._children.add(child)
            return {kind: cell.items for kind, cell in self._cells.items()}

    def join(self, child: Branch) -> None:
        """Take over what a child changed and read."""
        with self.lock:
            self._check(to_write=True)
            child._move()
            self._note_reads(child)
            for kind, cell in child._cells.items():
                if cell.ops:
                    mine = self._cell(kind)
                    mine.items = cell.applied(mine, mine.items)
                    mine.ops += cell.ops
                    mine.rewritten = mine.rewritten or cell.rewritten
            put_over(self._overlay, child._overlay)
            self._events += child._events

    def note_reads(self, child: Branch) -> None:
        """Count what a child has read as read here."""
        with self.lock:
            if self._closed is None:
                self._note_reads(child)

    # How it works.

    def _check(self, *, to_write: bool = False) -> None:
        if self._closed is not None:
            raise CallClosed(self._closed)
        if to_write and self.frozen:
            raise StateError(FROZEN)

    def _check_log(self, to_write: bool) -> None:  # noqa: FBT001 - a callback's only argument
        self._check(to_write=to_write)

    def _slice(self, kind: type[Any]) -> SliceView[Any]:
        self._check()
        if kind is PolicyState:
            return RecordSlice(self)
        if kind in self._store.logs:
            return BranchedLog(self._store, kind, self._check_log)
        check_kind(kind)
        with self.lock:
            return self._cell(kind)

    def _cell(self, kind: type[Any]) -> Cell:
        cell = self._cells.get(kind)
        if cell is None:
            cell = self._cells[kind] = Cell(self, kind, self._at_fork(kind))
        return cell

    def _at_fork(self, kind: type[Any]) -> Items:
        found = self._pins.get(kind)
        if found is not None:
            return found
        return EMPTY if self._parent is None else self._parent._at_fork(kind)

    def _reduce(self, event: object, registered: tuple[Any, ...]) -> None:
        store = self._store
        results: list[tuple[Cell, Items, bool]] = []
        logged: list[tuple[type[Any], list[Any], bool]] = []
        for kind, reducer in registered:
            if kind in store.logs:
                logged.append((kind, *keep(kind, store.log_additions(kind, reducer, event))))
            else:
                cell = self._cell(kind)
                results.append((cell, *cell.reduced(reducer, event)))
        reducers = [reducer for kind, reducer in registered if kind not in store.logs]
        for (cell, items, rewritten), reducer in zip(results, reducers, strict=True):
            cell.put((reducer, event), items, rewritten=rewritten)
        for kind, new, mutable in logged:
            store.append_log(kind, new, mutable=mutable)
        if results:
            self._events.append(event)
        else:
            store.subscribers.publish(event)

    def _put_back(self, slices: Mapping[type[Any], Items], records: Records) -> None:
        with self.lock:
            self._check(to_write=True)
            self._whole = True
            for kind in {**self.all_slices(), **slices}:
                self._cell(kind).put_back(slices.get(kind, EMPTY))
            gone = dict.fromkeys(self.read_records())
            update = {**gone, **records}
            put_over(
                self._overlay,
                {name: each for name, each in update.items() if not is_reserved(name)},
            )

    def _move(self) -> None:
        """Stand on the base's newest state, or raise; either wholly or not at all."""
        base = self._store.head if self._parent is None else None
        if base is self._head:
            return
        if base is not None and base.epoch != self._head.epoch:
            raise ConflictError(
                "The session was restored, reset or cleared while the call ran, so nothing of the "
                "call was kept; retry it."
            )
        moved = [
            (cell, now)
            for kind, cell in self._cells.items()
            if (now := self._base_now(kind)) is not cell.origin
        ]
        self._refuse_conflicts([cell for cell, _ in moved if cell.guarded])
        replayed = [(cell, now, *cell.replayed(now)) for cell, now in moved]
        for cell, now, items, rewritten in replayed:
            cell.moved(now, items, rewritten=rewritten)
        if base is not None:
            self._head, self._pins = base, base.slices
        elif self._parent is not None:
            self._pins = self._parent.changed_slices()

    def _refuse_conflicts(self, cells: list[Cell]) -> None:
        names = sorted(cell.kind.__qualname__ for cell in cells)
        if not names and self._whole and self._any_moved():
            names = ["some slice"]
        if names:
            raise ConflictError(
                f"Another call changed {', '.join(names)}, which this call had read or replaced, "
                "so nothing of this call was kept; retry it."
            )

    def _any_moved(self) -> bool:
        if self._parent is None:
            return self._store.head.slices is not self._head.slices
        now = self._parent.changed_slices()
        kinds = {*now, *self._pins}
        return any(self._parent.now(kind) is not self._at_fork(kind) for kind in kinds)

    def changed_slices(self) -> Mapping[type[Any], Items]:
        """Return the slices that may differ from this branch's fork."""
        return {kind: cell.items for kind, cell in self._cells.items()}

    def _base_now(self, kind: type[Any]) -> Items:
        if self._parent is None:
            return self._store.head.slices.get(kind, EMPTY)
        return self._parent.now(kind)

    def _commit_to_store(self) -> None:
        changed = [(kind, cell) for kind, cell in self._cells.items() if cell.ops]
        if not changed and not self._overlay:
            return
        store = self._store
        with store.lock:
            self._move()
            slices = {kind: cell.applied(store, cell.origin) for kind, cell in changed}
            store.put(slices, overlaid(store.head.records, self._overlay))

    def _note_reads(self, child: Branch) -> None:
        self._whole = self._whole or child._whole
        for kind, cell in child._cells.items():
            if cell.guarded:
                mine = self._cell(kind)
                mine.read = mine.read or cell.read
                mine.replaced = mine.replaced or (cell.replaced and bool(child._closed is None))

    def _shut(self, reason: str) -> None:
        self._closed = reason
        for child in tuple(self._children or ()):
            child.close(reason)
        for cell in tuple(self._cells.values()):
            cell.closed = reason
        if self._parent is not None and self._parent._children is not None:
            self._parent._children.discard(self)
        self._children = None
        self._cells = {}
        self._overlay = {}
        self._events = []
        self._whole = False


class BranchDispatcher:
    """The dispatcher of a call: what it publishes is heard after the commit, or not at all."""

    __slots__ = ("_branch",)

    def __init__(self, branch: Branch) -> None:
        self._branch = branch

    def subscribe(self, event: type[E], handler: Callable[[E], None]) -> Callable[[], None]:  # noqa: ARG002
        """Refuse: what a call subscribed could not be rolled back."""
        raise StateError(
            f"Events of {event.__qualname__} cannot be subscribed to inside a call, which may be "
            "rolled back. Subscribe on the session, before its calls."
        )

    def publish(self, event: object) -> None:
        """Publish an event when the call commits."""
        self._branch.publish(event)

"""The branch of a session that a call works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, TypeVar, cast

from toolstile.state import replay as redoing
from toolstile.state.persistent_list import EMPTY, Items, private
from toolstile.state.policy_records import (
    Records,
    RecordSlice,
    ReservingView,
    is_reserved,
    refuse_reserved,
)
from toolstile.state.replay import NO_ITEMS, AppliedEffect, Change, Doing, by_name, digest_of
from toolstile.state.request_slice import RequestSlice, is_request
from toolstile.state.session_json import Snapshot, fitting
from toolstile.state.slices import BranchedLog, Cell
from toolstile.state.store import Deciding, Head, check_kind, impure, reduced
from toolstile.state.transaction import CALLER_ENDED, OVER, Transaction
from toolstile_hookspecs.codecs import type_name
from toolstile_hookspecs.errors import ConflictError, StateError
from toolstile_hookspecs.execution.principal import RequestTurn
from toolstile_hookspecs.policies import PolicyState
from toolstile_hookspecs.sessions import Reducer, SessionProtocol, SliceView
from toolstile_hookspecs.stored_names import is_of_policy

S = TypeVar("S")
E = TypeVar("E")


class Branch(Transaction):
    """A session as one call sees it: its state at the fork, and the call's changes.

    Forking costs a pointer, rolling back drops the changes, committing costs the changed items.
    """

    __slots__ = ("__weakref__",)

    # --- used by handlers, as `SessionProtocol` and `Redoable` describe

    @property
    def id(self) -> str:
        return self._store.id

    @property
    def dispatcher(self) -> BranchDispatcher:
        return BranchDispatcher(self)

    def __getitem__(self, kind: type[S]) -> SliceView[S]:
        """Return the slice of a type; `StateError` for anything else, `CallClosed` afterwards."""
        if kind is PolicyState:
            if self._closed is not None:
                self.check()
            return RecordSlice(self)  # type: ignore[return-value] # pyright: ignore[reportReturnType]
        cell = self._cells.get(kind)
        if cell is not None:
            return cell
        self.check()
        if kind is RequestTurn:
            return RequestSlice(lambda: self.at_fork(RequestTurn))
        self._store.name_type(kind)
        if kind in self._store.logs:
            return BranchedLog(self._store, kind, self.check)
        check_kind(kind)
        return self.cell(kind)

    def dispatch(self, event: object) -> None:
        """Let the reducers registered for the event's type change their slices: all or none.

        `StateError`: the branch is frozen, or a reducer did not return items or changed its slice
        itself. `CallClosed`: the call is over.
        """
        registered = self._store.reducers.get(type(event))
        if registered is None and not self._store.subscribers.handlers:
            if self._closed is not None or self.frozen:
                self.check(to_write=True)
            return
        with self.lock:
            self.check(to_write=True)
            doing: Doing = "publish"
            if registered is not None:
                event, doing = private(event), "dispatch"
            if is_kept := registered is None or self._reduce(event, registered):
                self.log.append(Change(doing, type(event), [event]))
        if not is_kept:
            self._store.subscribers.publish(event)

    def snapshot(self, *, tag: str | None = None) -> Snapshot:
        """Return the present state; counts as reading every slice."""
        with self.lock:
            self.check()
            self._whole = self._whole or not self.frozen
            head = Head(self.all_now(), self.read_records(), self._head.epoch)
        return Snapshot(self.id, tag, head, self._store.lineage)

    def restore(self, snapshot: Any) -> None:
        """Put the state back, which counts as replacing all; `SnapshotError` if it does not fit."""
        head = fitting(snapshot, self._store)
        self._put_back(head.slices, head.records)

    def reset(self) -> None:
        self._put_back({}, {})

    def clone(self, *, id: str | None = None) -> SessionProtocol:  # noqa: A002 - it is the id
        return self._store.face(self._store.cloned(id, self.snapshot().head))

    def changes(self) -> str:
        if not self.log and self._closed is None:
            return redoing.NOTHING
        with self.lock:
            self.check()
            return redoing.written(self.log)

    def redo(self, changes: str, *, kinds: Iterable[type[Any]] = ()) -> None:
        if changes != redoing.NOTHING:
            # Of two types of one name, as after a plugin was loaded again, the session's own.
            store = self._store
            known = [*kinds, AppliedEffect, *store.kinds(), *store.reducers]
            made = redoing.read(changes, known)
            held = {id_ for *_, id_ in made if id_ is not None and self.has_applied(id_)}
            for effect_id, run in groupby(made, lambda change: change.effect_id):
                if effect_id not in held:
                    self._redo(run, effect_id)

    def _redo(self, changes: Iterable[Change], effect_id: str | None) -> None:
        """Repeat changes; a recorded effect's as a nested call, so that they name the effect."""
        branch = self if effect_id is None else self.fork()
        branch._effect_id = effect_id  # noqa: SLF001 - of the same class
        for doing, kind, items, _ in changes:
            if doing == "seed":
                branch[kind].replace(*items)
            elif doing == "append":
                branch[kind].append(*items)
            else:
                act = branch.dispatch if doing == "dispatch" else branch.publish
                act(*items)
        if branch is not self:
            branch.commit()

    # --- used by the host

    @property
    def kept(self) -> bool:
        """True when its commit has kept the changes, even if it was interrupted afterwards."""
        return self._closed is OVER

    @property
    def record_changes(self) -> Mapping[str, tuple[PolicyState | None, PolicyState | None]]:
        """The policies' records that were changed here, by name: in the session, and here."""
        before = self._store.newest.records
        return {name: (before.get(name), new) for name, new in self._overlay.items()}

    def fork(self) -> Branch:
        """Return a branch that commits into this one; `CallClosed` if this one is closed."""
        return Branch(self._store, self)

    def refork(self) -> None:
        """Drop all writes and reads, start from the newest state of the base, and reopen."""
        with self.lock:
            self._shut("The call is being run again; this slice is of its first run.")
            self._pin()
            self._closed = None
            self.frozen = False

    def begin(self) -> None:
        """Allow writes, from the newest state of the base; as `refork` of an unused branch."""
        if self._parent is None and self._head is self._store.head and not self._cells:
            self.frozen = False
        else:
            self.refork()

    def reserving(self, apart: dict[str, Any] | None = None) -> SessionProtocol:
        """Freeze, and return the view that a policy's `reserve` gets: it counts on the session.

        In a dry run it counts in records apart.
        """
        self.frozen = True
        return cast("SessionProtocol", ReservingView(self, self._store.write_records, apart))

    @property
    def below(self) -> Mapping[type[Any], Items]:
        """The slices that the base had changed when this branch was forked."""
        return self._pins

    def stand_on(self, slices: Mapping[type[Any], Items]) -> None:
        """See the slices of the base as they were earlier."""
        self._pins = slices

    def follow(self, kind: type[Any]) -> None:
        """Stand on the session's newest state of a slice, so that its change is no conflict."""
        with self.lock:
            now = self._store.found(self._store.head.slices, kind)
            self.cell(kind).moved(now, now, rewritten=False)

    def guarded_names(self) -> list[str]:
        return [cell.name for cell in self._cells.values() if cell.guarded]

    def base_digests(self) -> dict[str, str]:
        """Return digests, as of the fork, of the slices that were read or replaced here."""
        cells = [cell for cell in self._cells.values() if cell.guarded]
        return {type_name(cell.kind): digest_of(cell.kind, cell.origin) for cell in cells}

    def check_digests(self, digests: Mapping[str, str]) -> None:
        """Read slices, and raise a `ConflictError` that names all those with another digest."""
        above = () if self._parent is None else self._parent._cells  # noqa: SLF001 - of the same class
        known = by_name([*self._store.kinds(), *above])
        for name in digests.keys() & known.keys():
            self.cell(known[name]).read = True
        now = {
            name: digest_of(known[name], self.now(known[name])) if name in known else NO_ITEMS
            for name in digests
        }
        moved = sorted(name for name, digest in digests.items() if now[name] != digest)
        if moved:
            raise ConflictError(f"{', '.join(moved)} changed since the call was shown.")

    def validate(self) -> None:
        """Check that nothing this branch read or replaced has changed, and stand on the newest.

        Items that were only appended, or reduced without having been read, are put on top of other
        calls' items. Open branches forked from this one are closed: their base moves, and the
        handler that could wait for them has ended. The `ConflictError` names all changed slices.
        `CallClosed`: the branch is closed.
        """
        if self._children is not None:
            # A nested call joins before this, or not at all.
            with self.lock:
                self._close_children(CALLER_ENDED)
        if self._store.head is self._head and self._parent is None and self._closed is None:
            return
        with self.lock:
            self.check()
            self._move()

    def commit(self, deciding: Deciding | None = None) -> None:
        """Make the changes those of the base, close, and (top level) publish the events.

        The caller has validated and holds the commit turn, so nothing moves meanwhile but by direct
        use of the session, outside any call, and by other hosts. Where such a use touches a slice
        that the branch read, nothing is committed, no participant contributes, and the branch stays
        open (`ConflictError`). Others contribute to `deciding`; it is None where the session is
        all. `CallClosed`: it, or its parent, is closed.
        """
        with self.lock:
            if self._closed is not None:
                self.check()
            log = self.log
            if not (
                self._cells
                or self._overlay
                or log
                or self._children
                or self._whole
                or self._parent
                or deciding
            ):
                # Nothing was changed, nor read through a slice that code may still hold.
                self._closed = OVER
                return
            if self._parent is not None:
                self._parent.join(self)
                log = []
            else:
                self._commit_to_store(deciding)
            self._shut(OVER)
        if self._store.subscribers.handlers:
            for change in log:
                if change.doing in {"dispatch", "publish"}:
                    self._store.subscribers.publish(*change.items)

    def end_commit(self, ask: Callable[[], bool | None]) -> bool | None:
        """Tell whether a commit that raised has kept the changes; no thread keeps them later."""
        with self.lock:
            kept = self.kept or ask()
            self.close(OVER if kept else "The call has failed, so it can change nothing more.")
            return kept

    def rollback(self) -> None:
        """Drop all changes and close.

        Its reads still count as reads of its parent, which learns how the call ended.
        """
        with self.lock:
            if self._closed is None:
                if self._parent is not None:
                    self._parent.note_reads(self)
                self._shut(OVER)

    def mark_applied(self, effect_id: str) -> None:
        """Note that the session holds, with this branch, the changes of an effect."""
        self.cell(AppliedEffect).append(AppliedEffect(effect_id))
        self._effect_id = effect_id

    def has_applied(self, effect_id: str) -> bool:
        """Tell whether the session holds the changes of an effect; this read never conflicts.

        Commits of others after the fork count, too: this branch is put on top of them.
        """
        marks = [*self.now(AppliedEffect), *self.added_since(AppliedEffect)]
        return any(mark.effect_id == effect_id for mark in marks)

    def describe_changes(self) -> list[str]:
        """Return one line for each slice that changed, for a person to read.

        Records of policies and marks of effects are left out: the call did not ask for them.
        """
        with self.lock:
            changed = [cell for cell in self._cells.values() if cell.ops]
            shown = [cell for cell in changed if not is_of_policy(cell.kind)]
            return [described(cell) for cell in shown if cell.kind is not AppliedEffect]

    # --- used by views of slices

    def write_records(self, update: Mapping[str, PolicyState | None]) -> None:
        with self.lock:
            self.check(to_write=True)
            for name in update:
                refuse_reserved(name)
            self._update_records(update)

    def publish(self, event: object) -> None:
        with self.lock:
            self.check(to_write=True)
            self.log.append(Change("publish", type(event), [event]))

    def _reduce(self, event: object, registered: Mapping[type[Any], Reducer]) -> bool:
        """Apply the reducers; returns whether a STATE slice is among theirs."""
        store = self._store
        made: list[tuple[Cell, Items, Reducer, Items, bool]] = []
        logged: list[tuple[type[Any], list[Any]]] = []
        for kind, reducer in registered.items():
            if kind in store.logs:
                logged.append((kind, store.log_additions(kind, reducer, event)))
            else:
                cell = self.cell(kind)
                before = cell.items
                items, rewritten = reduced(kind, before, reducer, event, cell.token)
                made.append((cell, before, reducer, items, rewritten))
        for cell, before, *_ in made:
            if cell.items is not before:
                raise impure(cell.kind, event)
        for cell, _, reducer, items, rewritten in made:
            cell.put((reducer, event), items, rewritten=rewritten)
        for kind, kept in logged:
            store.append_log(kind, kept)
        return bool(made)

    def _put_back(self, slices: Mapping[type[Any], Items], records: Records) -> None:
        with self.lock:
            self.check(to_write=True)
            self._whole = True
            for kind in {**self.all_now(), **slices}:
                if not is_request(kind):
                    self.cell(kind).put_back(slices.get(kind, EMPTY))
            update = {**dict.fromkeys(self.read_records()), **records}
            self._update_records({n: record for n, record in update.items() if not is_reserved(n)})


class BranchDispatcher:
    """The dispatcher of a call: its events are published after the commit, or not at all."""

    __slots__ = ("_branch",)

    def __init__(self, branch: Branch) -> None:
        self._branch = branch

    def subscribe(
        self,
        event: type[E],
        handler: Callable[[E], None],  # noqa: ARG002 - the protocol's
    ) -> Callable[[], None]:
        """Refuse: a subscription from inside a call could not be rolled back."""
        raise StateError(
            f"Events of {event.__qualname__} cannot be subscribed to inside a call, which may be "
            "rolled back. Subscribe on the session, before its calls."
        )

    def publish(self, event: object) -> None:
        self._branch.publish(event)


# --- Changes in words


_SHOWN = 3
_WIDTH = 200


def described(cell: Cell) -> str:
    """Return one line about a slice that was written."""
    before, after = len(cell.origin), len(cell.items)
    if not cell.rewritten:
        new = cell.items.after(before)
        return f"{cell.name}: added {_counted(new)}"
    if not after:
        return f"{cell.name}: emptied ({before} before)"
    new = cell.items.after(after - _SHOWN - 1)
    return f"{cell.name}: replaced, {before} before, now {after}: {_listed(new)}"


def _counted(items: list[object]) -> str:
    if not items:
        return "nothing"
    return _listed(items) if len(items) == 1 else f"{len(items)}: {_listed(items)}"


def _listed(items: list[object]) -> str:
    texts = (" ".join(repr(item).split()) for item in items[-_SHOWN:])
    shown = [text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..." for text in texts]
    if len(items) > _SHOWN:
        shown.insert(0, "...")
    return ", ".join(shown)

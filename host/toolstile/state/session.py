"""A session: typed slices, reducers, branches for calls, snapshots, JSON."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast
from uuid import uuid4

from toolstile.settings.model import HISTORY_BYTES, HISTORY_EVENTS
from toolstile.state.branch import Branch
from toolstile.state.journal import Journal
from toolstile.state.persistent_list import History, Items, Log
from toolstile.state.policy_records import Records, RecordSlice, with_reserved_of
from toolstile.state.request_slice import RequestSlice, add_turns
from toolstile.state.session_json import Saved, Snapshot, fitting, read, write
from toolstile.state.slices import SessionSlice
from toolstile.state.store import ChildStore, Head, Store, Subscribers, check_kind
from toolstile_hookspecs.calls import ToolInvoked
from toolstile_hookspecs.execution.principal import RequestTurn
from toolstile_hookspecs.policies import PolicyState
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.sessions import SliceView

S = TypeVar("S")

log = logging.getLogger("toolstile.state")


class Session:
    """The state of one conversation or job, shared by its calls. Safe to use from any thread.

    Args:
        id: Its id; a random one by default.
        history_events: The most events of its calls (`ToolInvoked`) to keep, the newest ones;
            0 for any number.
        history_bytes: The most bytes of their arguments, texts and values; 0 for any number.

    Example:
        >>> session = Session(id="demo")
        >>> session[str].append("hello")
        >>> branch = session.fork()
        >>> branch[str].append("world")
        >>> session[str].latest()
        'hello'
        >>> branch.commit()
        >>> list(session[str].all())
        ['hello', 'world']
    """

    def __init__(
        self,
        *,
        id: str | None = None,  # noqa: A002 - it is the id
        history_events: int = HISTORY_EVENTS,
        history_bytes: int = HISTORY_BYTES,
    ) -> None:
        calls = History(history_events, history_bytes)
        self._store = Store(id or uuid4().hex, _over, object(), {ToolInvoked: calls})

    @property
    def id(self) -> str:
        """The session's id."""
        return self._store.id

    @property
    def dispatcher(self) -> Subscribers:
        """Where events are published and subscribed to."""
        return self._store.subscribers

    @property
    def journal(self) -> Journal | None:
        """The journal of a stored session; None for a session in memory."""
        return self._store if isinstance(self._store, Journal) else None

    @property
    def epoch(self) -> int:
        """The number of restores, resets and clears; calls of an older epoch conflict."""
        return self._store.head.epoch

    def __getitem__(self, kind: type[S]) -> SliceView[S]:
        """Return the slice of a type.

        Raises:
            StateError: The type is not a class.
        """
        if kind is PolicyState:
            return cast("SliceView[S]", RecordSlice(self._store))
        if kind is RequestTurn:
            return cast("SliceView[S]", RequestSlice(lambda: self._store.items(RequestTurn)))
        check_kind(kind)
        self._store.name_type(kind)
        return SessionSlice(self._store, kind)

    def kinds(self) -> set[type[Any]]:
        """Return the types of all slices there are or that a reducer may make."""
        return self._store.kinds()

    def dispatch(self, event: object) -> None:
        """Let the reducers registered for the event's type change their slices, then publish it.

        Either all of them apply or, if one raises, none.
        """
        self._store.dispatch(event)
        self._store.subscribers.publish(event)

    def log(self, event: object, size: int = 0) -> None:
        """Add an event to the LOG slice of its type, at once, and publish it.

        Reducers that other slices have for the type apply too; a failing one is logged. The
        event of a call holds so many bytes.

        Raises:
            StateError: The slice of the type is STATE.
        """
        kind = type(event)
        store = self._store
        if kind is ToolInvoked and kind not in store.reducers:
            calls: Any = store.logs[ToolInvoked]
            calls.add(event, size)
            if store.subscribers.handlers:
                store.subscribers.publish(event)
            return
        store.as_log(kind)
        store.log_at_once(kind, event)
        if kind in store.reducers:
            try:
                store.dispatch(event, besides=kind)
            except Exception:
                log.exception("A reducer of %s raised; the event is kept.", kind.__qualname__)
        store.subscribers.publish(event)

    def record_in(self, records: SessionStore) -> None:
        """Continue the session of this id from a store, and record all that follows.

        Raises:
            StateError: The store cannot be read.
        """
        self._store = journal = Journal(records, self._store)
        journal.catch_up()
        journal.condense()

    def apart(self) -> Session:
        """Return a new session in memory, whose policies remember in this session."""
        own = _over(ChildStore(self._store, {ToolInvoked: History(HISTORY_EVENTS, HISTORY_BYTES)}))
        add_turns(own._store, self[RequestTurn].all())  # noqa: SLF001 - of this class
        return own

    def fork(self) -> Branch:
        """Return a branch for a call; costs a pointer."""
        return Branch(self._store)

    @property
    def policy_records(self) -> Records:
        """The records of the policies by name; never changed, so keeping it costs a pointer.

        Setting it puts back the reserved records as they were in it. All others stay, since
        calls that have committed meanwhile may have updated them.
        """
        return self._store.newest.records

    @policy_records.setter
    def policy_records(self, records: Records) -> None:
        store = self._store
        with store.moving():
            store.put({}, with_reserved_of(store.newest.records, records))

    def snapshot(self, *, tag: str | None = None) -> Snapshot:
        """Return the present state; costs a pointer."""
        return Snapshot(self.id, tag, self._store.head, self._store.lineage)

    def restore(self, snapshot: Any) -> None:
        """Put the STATE slices and the policies' records back; calls under way conflict.

        Logs stay as they are, and so do the records that policies have reserved: neither is
        ever rolled back.

        Args:
            snapshot: One of this session, of a clone of it, or one read from JSON.

        Raises:
            SnapshotError: It is of another session, or holds a slice that has become a LOG.
        """
        head = fitting(snapshot, self._store)
        self._replace(head.slices, head.records)

    def reset(self) -> None:
        """Empty all STATE slices and the policies' records; calls under way conflict.

        Logs, reducers and the records that policies have reserved stay.
        """
        self._replace({}, {})

    def clone(self, *, id: str | None = None) -> Session:  # noqa: A002 - it is the id
        """Return an independent session with the same state, logs and reducers.

        Subscribers are not taken along.
        """
        return _over(self._store.cloned(id, self._store.head))

    def to_json(self) -> str:
        """Return the state as versioned JSON: STATE and LOG slices, and the policies' records.

        The log of calls (`ToolInvoked`) is left out: it holds tools and exceptions, which are
        not data. A recorder keeps it. An item that JSON would change is refused, such as one with
        a tuple in a field of type `Any`.

        Raises:
            SnapshotError: An item cannot be written as JSON, or could not be read again.
        """
        store = self._store
        with store.lock:
            logs: dict[Any, Any] = {kind: log.items() for kind, log in store.logs.items()}
            del logs[ToolInvoked]
            if self.journal is not None:
                logs.update(self.journal.unnamed_logs)
            head = store.head
        return write(Saved(self.id, None, head.slices, logs, head.records))

    @classmethod
    def from_json(
        cls,
        text: str,
        *,
        kinds: Iterable[type[Any]] = (),
        history: tuple[int, int] = (HISTORY_EVENTS, HISTORY_BYTES),
    ) -> Session:
        """Return the session that `to_json` wrote, with its id.

        Args:
            text: The JSON.
            kinds: The types of its slices; nothing is imported that the text names.
            history: The most events of its calls to keep, and the most bytes of them.

        Raises:
            SnapshotError: The text is malformed, of another version, or names an unknown type.
        """
        saved = read(text, kinds)
        session = cls(id=saved.id, history_events=history[0], history_bytes=history[1])
        store = session._store
        store.head = _head(saved)
        for kind, items in saved.logs.items():
            store.logs[kind] = Log(items)
        return session

    def read_snapshot(self, text: str, *, kinds: Iterable[type[Any]] = ()) -> Snapshot:
        """Return the snapshot that `to_json` wrote, to be restored here.

        Args:
            text: The JSON of a snapshot or a session.
            kinds: Further types of slices, which this session neither has nor has reducers for.

        Raises:
            SnapshotError: The text is malformed, of another version, or names an unknown type.
        """
        saved = read(text, [*kinds, *self._store.kinds()])
        return Snapshot(saved.id, saved.tag, _head(saved), None)

    def _replace(self, slices: Mapping[type[Any], Items], records: Records) -> None:
        store = self._store
        with store.moving():
            store.replace(slices, with_reserved_of(records, store.newest.records))


def _over(store: Store) -> Session:
    session = Session.__new__(Session)
    session._store = store  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - its own
    return session


def _head(saved: Saved) -> Head:
    slices = {kind: Items.of(list(items), None) for kind, items in saved.slices.items()}
    return Head(slices, saved.records, 0)

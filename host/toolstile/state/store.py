"""The store of a session: its head, its logs, its reducers and its subscribers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from os import urandom
from threading import Lock, RLock
from time import time_ns
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from toolstile.state.persistent_list import EMPTY, History, Items, ItemsView, Log, private
from toolstile.state.policy_records import NO_RECORDS, Records, overlaid
from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.policies import PolicyState
from toolstile_hookspecs.sessions import Append, Reducer, SessionProtocol, SlicePolicy
from toolstile_hookspecs.support.callables import is_async_callable

# --- Reducers


ReducerTable = Mapping[type[Any], Mapping[type[Any], Reducer]]
"""The reducers for each type of event, by the type of their slice, in order; never changed."""


def keep(kind: type[Any], items: Iterable[Any]) -> list[Any]:
    """Return items as a slice keeps them: of its type, and copied if they can change."""
    kept: list[Any] = []
    for item in items:
        if not isinstance(item, kind):
            several = isinstance(item, (list, tuple))
            remedy = "Give them as seed(*items)" if several else "Use the slice of that type"
            raise StateError(
                f"The slice of {kind.__qualname__} holds {kind.__qualname__} items and cannot "
                f"take one of {type(item).__qualname__}. {remedy} instead."
            )
        kept.append(private(item))
    return kept


def seeded(items: Sequence[Any], event: Sequence[Any]) -> Sequence[Any]:  # noqa: ARG001 - a reducer
    """Reduce by replacing everything by the items given."""
    return event


def cleared(items: Sequence[Any], event: Any) -> Sequence[Any]:
    """Reduce by removing the items for which a predicate holds, or all without one."""
    return [] if event is None else [item for item in items if not event(item)]


def reduced(
    kind: type[Any], items: Items, reducer: Reducer, event: Any, owner: object
) -> tuple[Items, bool]:
    """Apply a reducer; return the items, held by the owner, and whether it did more than add."""
    view = ItemsView(items)
    result = reducer(view, event)
    if isinstance(result, Append):
        return items.extended(owner, keep(kind, result)), False
    if result is view and not view.copies.made:
        return items, False
    if not _is_items(result):
        raise StateError(
            f"The reducer {name_of(reducer)} of the slice of {kind.__qualname__} returned "
            f"{type(result).__qualname__} for an event of {type(event).__qualname__}. It must "
            "return the new items as a sequence, or Append([...]) of those to add."
        )
    return Items.of(keep(kind, result), owner), True


def impure(kind: type[Any], event: object) -> StateError:
    """Return the error for a reducer that has changed a slice instead of returning items."""
    return StateError(
        f"While reducers applied an event of {type(event).__qualname__} to the slice of "
        f"{kind.__qualname__}, one of them changed that slice itself, and one of the two changes "
        "would be lost. A reducer is pure: it only returns the new items. Dispatch what follows "
        "from an event after it."
    )


def _is_items(result: object) -> bool:
    return isinstance(result, Sequence) and not isinstance(result, (str, bytes))


def name_of(reducer: Reducer) -> str:
    """Return a reducer's name for messages."""
    return getattr(reducer, "__qualname__", type(reducer).__qualname__)


# --- Subscribers


E = TypeVar("E")
Handler = Callable[[Any], None]

log = logging.getLogger("toolstile.state")


class Subscribers:
    """The subscribers of one session; events reach them at once, on the publisher's thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.handlers: dict[type[Any], tuple[Handler, ...]] = {}

    def subscribe(self, event: type[E], handler: Callable[[E], None]) -> Callable[[], None]:
        if fault := fault_of(event, handler, "handler"):
            raise StateError(f"Nobody is subscribed: {fault}.")

        # A separate wrapper, so that one handler can subscribe twice and leave once.
        def subscriber(item: E) -> None:
            handler(item)

        with self._lock:
            there = self.handlers.get(event, ())
            self.handlers = {**self.handlers, event: (*there, subscriber)}

        def unsubscribe() -> None:
            with self._lock:
                left = tuple(
                    other for other in self.handlers.get(event, ()) if other is not subscriber
                )
                self.handlers = {**self.handlers, event: left}

        return unsubscribe

    def publish(self, event: object) -> None:
        handlers = self.handlers
        if not handlers:
            return
        for kind in type(event).__mro__:
            for handler in handlers.get(kind, ()):
                try:
                    handler(event)
                except Exception:
                    log.exception(
                        "A subscriber of %s raised; the event stays published.", kind.__qualname__
                    )


def fault_of(event: object, function: object, role: str) -> str | None:
    """Return why a function, called by its role, cannot be given events of a type, or None."""
    if not isinstance(event, type):
        return f"events are known by their class, and {event!r} is not a class"
    if not callable(function):
        return f"{function!r} is not a function; give a {role}"
    if is_async_callable(function):
        return f"its {role} is async, and nothing would await it; give a plain function"
    return None


# --- The store


Slices = Mapping[Any, Items]
"""STATE slices by type; of a stored session also the JSON of some, by the names of their types."""


class Head(NamedTuple):
    """One state of a session; replaced, never changed.

    `slices` stays the same object as long as none has changed. `epoch` counts how often the session
    was restored, reset or cleared from outside a call.
    """

    slices: Slices
    records: Records
    epoch: int


def new_decision_id() -> str:
    """Return the id of a decision; a later one sorts behind, so that a store appends it."""
    return f"{time_ns():016x}{urandom(8).hex()}"


@dataclass(slots=True)
class Deciding:
    """A decision on its way to the store."""

    # Has those who take part record, given the connection of the transaction.
    contribute: Callable[[Any], None] = lambda connection: None  # noqa: ARG005 - no participant
    id: str = field(default_factory=new_decision_id)
    is_durable: bool = False  # whether it is recorded though the session does not change
    has_files: bool = False  # whether changes of a workspace belong to it
    # Seconds for which its answer is asked for, once that is lost; None for the usual.
    patience: float | None = None
    is_kept: bool = False  # whether the session's store is known to have recorded it
    is_void: bool = False  # whether the call is undone although a ledger has recorded it
    note: dict[str, Any] | None = None  # fields of the note of how to undo the call


_START = Head({}, NO_RECORDS, 0)


class Store:
    """The state of one session, shared by its face and its branches.

    Args:
        id: The session's id.
        face: Makes a session of a store; so that a branch can clone without knowing sessions.
        lineage: The same for a session and its clones: their snapshots fit one another.
        logs: The LOG slices, that of the calls' events among them.

    Attributes:
        is_stored: Whether the movements of the head are recorded; see `Journal`.

    Raises:
        StateError: The id is not a text.
    """

    is_stored = False

    def __init__(
        self,
        id: str,  # noqa: A002 - it is the id
        face: Callable[[Store], SessionProtocol],
        lineage: object,
        logs: dict[type[Any], Log | History],
    ) -> None:
        if not isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise StateError(f"A session's id is a text, and {id!r} is not; give one, or no id.")
        self.id = id
        self.face = face
        self.lineage = lineage
        self.lock = RLock()
        self.head = _START
        self.logs = logs
        self.reducers: ReducerTable = {}
        self.subscribers = Subscribers()

    def cloned(self, id: str | None, head: Head) -> Store:  # noqa: A002 - it is the id
        with self.lock:
            logs = {kind: log.fork() for kind, log in self.logs.items()}
            other = Store(id or uuid4().hex, self.face, self.lineage, logs)
            other.head = Head(head.slices, head.records, 0)
            other.reducers = self.reducers
        return other

    def kinds(self) -> set[type[Any]]:
        made = {kind for there in self.reducers.values() for kind in there}
        named = {kind for kind in self.head.slices if isinstance(kind, type)}
        return {*named, *self.logs, *made}

    def items(self, kind: type[Any]) -> Items:
        log = self.logs.get(kind)
        return self.found(self.head.slices, kind) if log is None else log.items()

    def found(self, slices: Slices, kind: type[Any]) -> Items:
        return slices.get(kind, EMPTY)

    def name_type(self, kind: type[Any]) -> None:
        """Hear of a type that slices are asked for by."""

    def moving(self, deciding: Deciding | None = None) -> AbstractContextManager[Any]:  # noqa: ARG002 - a journal records it
        """Return the lock to hold while the head moves."""
        return self.lock

    def register(
        self, kind: type[Any], event: type[Any], reducer: Reducer, policy: SlicePolicy
    ) -> None:
        with self.lock:
            self._settle(kind, policy)
            there = self.reducers.get(event, {})
            self.reducers = {**self.reducers, event: {**there, kind: reducer}}

    def _settle(self, kind: type[Any], policy: SlicePolicy) -> None:
        self.name_type(kind)
        is_log = kind in self.logs
        if is_log == (policy is SlicePolicy.LOG):
            return
        if is_log or kind in self.kinds():
            now, other = ("LOG", "STATE") if is_log else ("STATE", "LOG")
            raise StateError(
                f"The slice of {kind.__qualname__} is {now} and cannot become {other}. Register "
                f"with SlicePolicy.{now}, or keep the items in a slice of another type."
            )
        self.logs[kind] = Log()

    def as_log(self, kind: type[Any]) -> None:
        """Make a slice a LOG unless it is one; raise StateError if it is STATE."""
        if kind not in self.logs:
            with self.lock:
                self._settle(kind, SlicePolicy.LOG)

    def log_at_once(self, kind: type[Any], item: Any) -> None:
        """Add an item to a LOG slice from outside any call."""
        self.append_log(kind, keep(kind, (item,)))
        self.tell_logs()

    def tell_logs(self) -> None:
        """Record additions to LOG slices, if the session is stored."""

    def append_log(self, kind: type[Any], items: list[Any]) -> None:
        """Add kept items to a LOG slice, at once and for good; recorded with the call."""
        with self.lock:
            self.logs[kind].extend(items)

    def log_additions(self, kind: type[Any], reducer: Reducer, event: object) -> list[Any]:
        """Return a reducer's additions to its LOG slice; `StateError` if it replaces items."""
        result = reducer(ItemsView(self.logs[kind].items()), event)
        if not isinstance(result, Append):
            raise StateError(
                f"The slice of {kind.__qualname__} is a LOG, to which items are only added, but "
                f"the reducer {name_of(reducer)} replaces them. Return Append([...]), or register "
                "with SlicePolicy.STATE."
            )
        return keep(kind, result)

    def write(self, kind: type[Any], reducer: Reducer, event: object) -> None:
        """Change one STATE slice from outside any call."""
        with self.moving():
            items, _ = reduced(kind, self.found(self.newest.slices, kind), reducer, event, self)
            self.put({kind: items})

    def dispatch(self, event: object, *, besides: type[Any] | None = None) -> None:
        """Apply the reducers of an event from outside any call: all but `besides`, or none."""
        with self.moving():
            head = self.newest
            before: dict[type[Any], Items] = {}
            changed: dict[type[Any], Items] = {}
            logged: list[tuple[type[Any], list[Any]]] = []
            for kind, reducer in self.reducers.get(type(event), {}).items():
                if kind is besides:
                    continue
                if kind in self.logs:
                    logged.append((kind, self.log_additions(kind, reducer, event)))
                else:
                    before[kind] = self.found(head.slices, kind)
                    changed[kind], _ = reduced(kind, before[kind], reducer, event, self)
            for kind, items in before.items():
                if self.found(self.newest.slices, kind) is not items:
                    self._move_to(head)
                    raise impure(kind, event)
            moved = {kind: items for kind, items in changed.items() if items is not before[kind]}
            if moved:
                self.put(moved)
            for kind, kept in logged:
                self.append_log(kind, kept)

    @property
    def newest(self) -> Head:
        return self.head

    def put(self, slices: Slices, records: Records | None = None) -> None:
        """Put new versions of slices into the head, while it is `moving`."""
        head = self.newest
        merged = {**head.slices, **slices} if slices else head.slices
        self._move_to(Head(merged, head.records if records is None else records, head.epoch))

    def replace(self, slices: Slices, records: Records) -> None:
        """Replace the whole head and begin a new epoch: calls under way conflict."""
        with self.moving():
            self._move_to(Head(slices, records, self.newest.epoch + 1))

    def _move_to(self, head: Head) -> None:
        self.head = head

    def read_records(self) -> Records:
        return self.head.records

    def read_record(self, name: str) -> PolicyState | None:
        return self.read_records().get(name)

    def write_records(self, update: Mapping[str, PolicyState | None]) -> None:
        with self.moving():
            self.put({}, overlaid(self.newest.records, update))


class ChildStore(Store):
    """The state of a child's own session, in memory; the policies' records are its parent's."""

    def __init__(self, parent: Store, logs: dict[type[Any], Log | History]) -> None:
        super().__init__(uuid4().hex, parent.face, object(), logs)
        self._parent = parent

    @property
    def newest(self) -> Head:
        return self.head._replace(records=self._parent.newest.records)

    def put(self, slices: Slices, records: Records | None = None) -> None:
        """Put new versions of slices into the head, and changed records into the parent's."""
        before = self._parent.newest.records
        names = {} if records is None else {**before, **records}
        update = {name: (records or {}).get(name) for name in names}
        update = {name: new for name, new in update.items() if new is not before.get(name)}
        if update:
            self._parent.write_records(update)
        super().put(slices, NO_RECORDS)

    def read_records(self) -> Records:
        return self._parent.read_records()

    def write_records(self, update: Mapping[str, PolicyState | None]) -> None:
        self._parent.write_records(update)


def check_kind(kind: object) -> None:
    """Raise if nothing can be in a slice of this name."""
    if not isinstance(kind, type):
        raise StateError(
            f"Slices are named by a class, which {kind!r} is not. Use session[Plan], where Plan "
            "is the class of the items."
        )
    try:
        isinstance(None, kind)
    except TypeError as error:
        raise StateError(
            f"Slices are named by a class, and no item is an instance of {kind.__qualname__}, as "
            "of TypedDicts and protocols. Make it a dataclass, a pydantic model or a named tuple."
        ) from error

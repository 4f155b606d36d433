"""Session state as handlers and policies see it: slices, reducers, a dispatcher."""

# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

S = TypeVar("S")
E = TypeVar("E")

Reducer = Callable[[Sequence[Any], Any], Sequence[Any]]
"""A pure function from a slice's items and an event to all items, or to an `Append` of new ones."""


class SlicePolicy(Enum):
    """The role of a slice in transactions."""

    STATE = "state"
    """Changed on the call's branch: committed with the call, or gone with it."""
    LOG = "log"
    """Appended to the session at once, never rolled back."""


class Append(tuple[Any, ...]):
    """The answer of a reducer that appends items; costs the same however long the slice is.

    Example:
        >>> Append(["a", "b"])
        ('a', 'b')
    """

    __slots__ = ()


def append_all(items: Sequence[Any], event: Any) -> Sequence[Any]:  # noqa: ARG001 - a reducer
    """Reduce by keeping every event, in order."""
    return Append([event])


def replace_latest(items: Sequence[Any], event: Any) -> Sequence[Any]:  # noqa: ARG001 - a reducer
    """Reduce by keeping only the newest event."""
    return [event]


class SliceView(Protocol[S]):
    """One slice of a session: the items of one type, oldest first."""

    def latest(self) -> S | None:
        """Return the newest item, or None."""

    def all(self) -> Sequence[S]:
        """Return all items, oldest first."""

    def where(self, predicate: Callable[[S], bool]) -> Sequence[S]:
        """Return the items for which the predicate holds."""

    def append(self, item: S) -> None:
        """Add an item at the end."""

    def replace(self, *items: S) -> None:
        """Replace all items by these."""

    def seed(self, *items: S) -> None:
        """Do the same as `replace`, by an older name."""

    def clear(self, predicate: Callable[[S], bool] | None = None) -> None:
        """Remove all items, or those for which the predicate holds."""

    def register(
        self, event: type[Any], reducer: Reducer, policy: SlicePolicy = SlicePolicy.STATE
    ) -> None:
        """Let events of a type change this slice, through a pure reducer."""


class Dispatcher(Protocol):
    """Publishes events to the subscribers of their type."""

    def subscribe(self, event: type[E], handler: Callable[[E], None]) -> Callable[[], None]:
        """Call `handler` with each event of the type; return a function that ends it.

        It is called after the top-level call has committed. An exception is logged.
        """

    def publish(self, event: object) -> None:
        """Publish an event; inside a call, after the commit or not at all."""


class SessionSnapshot(Protocol):
    """The state of a session at a moment; costs a pointer."""

    @property
    def session_id(self) -> str:
        """The id of the session."""

    @property
    def tag(self) -> str | None:
        """The name given to `snapshot`."""

    def to_json(self) -> str:
        """Return it as versioned JSON."""


class SessionProtocol(Protocol):
    """A session, or the branch of it that a call works on; both look alike."""

    @property
    def id(self) -> str:
        """The session's id."""

    @property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher of its events."""

    def __getitem__(self, type_: type[S], /) -> SliceView[S]:
        """Return the slice of a type."""

    def dispatch(self, event: object) -> None:
        """Let the reducers registered for the event's type change their slices."""

    def snapshot(self, *, tag: str | None = None) -> SessionSnapshot:
        """Return the present state."""

    def restore(self, snapshot: Any) -> None:
        """Put the state back; logs stay as they are."""

    def reset(self) -> None:
        """Empty all state slices; logs and reducers stay."""

    def clone(self, *, id: str | None = None) -> SessionProtocol:  # noqa: A002 - it is the id
        """Return an independent session with the same state and reducers."""

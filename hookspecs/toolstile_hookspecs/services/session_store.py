"""Stores of sessions: the numbered movements of a session's head, each recorded before it is seen.

Hosts of one machine or of many share a store. The commit of a call, a direct write, `restore`,
`reset` and `clear` each move the head by one entry. An entry holds the new items of slices, never
the events that made them, because reducers differ between hosts.
`toolstile_hookspecs.testing.SessionStoreContract` tests a store.
"""

# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable


class Entry(NamedTuple):
    """One movement of a session's head.

    Args:
        number: The place, from 1 on, without gaps.
        decision_id: The id of the decision, 32 hexadecimal digits.
        epoch: How often the session had been restored, reset or cleared.
        changes: The new content of slices, records and logs, as JSON that only the host reads.
        has_files: Whether changes of a workspace belong to the entry.
    """

    number: int
    decision_id: str
    epoch: int
    changes: str
    has_files: bool = False


class SessionInfo(NamedTuple):
    """A stored session, for a person to read.

    Args:
        id: The id.
        number: The number of the newest entry.
        changed_at: The time of the newest entry; aware, UTC.
    """

    id: str
    number: int
    changed_at: datetime


class OpenDecision(Protocol):
    """The open transaction that decides one movement of a session."""

    @property
    def connection(self) -> Any:
        """The database connection, for tables of other stores, or None."""

    def after(self, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order."""

    def append(self, entry: Entry) -> None:
        """Record an entry, once the transaction is committed."""


@runtime_checkable
class SessionStore(Protocol):
    """Keeps the entries of sessions.

    Every method raises `StateError` with a remedy if the store cannot be read or written.

    A store of many machines may keep their stops: `stops()` returns a text, `change_stops(change)`
    replaces it and waits for decisions that have read the old one. Each decision, before it records
    anything, and soon others, too, call `heard` with the new one; the host sets that function.

    Attributes:
        waits: Whether a decision may wait; the host then makes it on a thread.
    """

    waits: bool

    @property
    def database(self) -> str | None:
        """The file or address where a ledger can keep its table, too, or None.

        Beside a `Decider` with another `database`, the host does not open.
        """

    def has_moved(self, session_id: str, number: int) -> bool:
        """Tell whether there may be entries after a number; cheap, as the host asks before calls.

        A store that listens for changes may miss the newest, because a decision reads all.
        """

    def after(self, session_id: str, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order.

        If they were condensed, the first is an entry with the whole state.
        """

    def deciding(self, session_id: str) -> AbstractContextManager[OpenDecision]:
        """Open the transaction of a decision, alone in the store.

        Leaving it commits; an exception inside rolls back. After an exception on leaving the
        result is unknown, and the host asks `decided`.
        """

    def condense(self, session_id: str, whole: Entry) -> None:
        """Keep an entry with the whole state in place of all entries up to its number.

        The ids of their decisions stay known.
        """

    def key_of(self, decision_id: str) -> str:
        """Return the key for a workspace's note of a decision; it names this store."""

    def decided(self, key: str) -> bool | None:
        """Tell whether the decision of a key was made; None for a key of another store.

        The answer outlives the session's entries.
        """

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the stored sessions, the one changed last at the end."""

    def delete(self, session_id: str) -> bool:
        """Remove a session; return whether there was one."""

    def close(self) -> None:
        """Release connections and files; the next use opens the store again."""


@dataclass(slots=True)
class Decision:
    """The decision of a call, as its contributors see it.

    Args:
        id: The id; None without a session store, so that a contributor decides.
        connection: The connection of the open transaction; see `OpenDecision`.
    """

    id: str | None
    connection: Any


@runtime_checkable
class Contributor(Protocol):
    """A participant whose record is part of the call's one decision.

    Attributes:
        contributes: Whether there is something to record for this call.
    """

    contributes: bool

    def contribute(self, decision: Decision) -> None:
        """Record in the decision's transaction, without waiting for another call.

        Called after every `prepare`, when no conflict is possible. An exception refuses the
        decision and rolls everything back. Use the decision's connection, because another one
        would wait for it.
        """


@runtime_checkable
class LocksFile(Protocol):
    """An `Exclusive` resource that locks a database's file while a call has it, or its provider.

    The host refuses it for the file of its decisions, because a decision would wait for the lock
    of its own call. If the provider names the file, too, the host does not open.
    """

    @property
    def locked_file(self) -> str | Path | None:
        """The file; None if others can write to it."""

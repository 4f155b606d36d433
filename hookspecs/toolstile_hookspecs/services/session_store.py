"""Stores of sessions: the numbered movements of a session's head, each recorded before it is seen.

A store is shared by the hosts of a machine, or of many. What moves a session's head - the commit
of a call, a direct write, `restore`, `reset`, `clear` - is one entry. An entry tells the items that
slices came to, never the events that made them, since reducers differ between hosts.
`toolstile_hookspecs.testing.SessionStoreContract` shows whether a store keeps to this.
"""

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
        number: Its place, from 1 on, without gaps.
        decision_id: The id of its decision, 32 hexadecimal digits.
        epoch: How often the session was restored, reset or cleared by then.
        changes: What slices, records and logs came to, as JSON that only the host reads.
        has_files: Whether changes of a workspace belong to it.
    """

    number: int
    decision_id: str
    epoch: int
    changes: str
    has_files: bool = False


class SessionInfo(NamedTuple):
    """A stored session, for a person to read.

    Args:
        id: Its id.
        number: The number of its newest entry.
        changed_at: The time of that entry; aware, UTC.
    """

    id: str
    number: int
    changed_at: datetime


class OpenDecision(Protocol):
    """The open transaction in which one movement of a session is decided."""

    @property
    def connection(self) -> Any:
        """The database connection, for those who keep their own tables there; None for none."""

    def after(self, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order."""
        ...

    def append(self, entry: Entry) -> None:
        """Record an entry, once the transaction is committed."""


@runtime_checkable
class SessionStore(Protocol):
    """Keeps the entries of sessions.

    Every method raises `StateError`, which says what to do, when the store cannot be read or
    written.

    Attributes:
        waits: Whether a decision may wait, so that it is kept off event loops.
    """

    waits: bool

    @property
    def database(self) -> str | None:
        """The file or address in which a ledger can keep its table, too; None for none.

        Beside a `Decider` with another `database`, the host does not open.
        """
        ...

    def has_moved(self, session_id: str, number: int) -> bool:
        """Tell whether there may be entries after a number; asked before each call, so cheap.

        What others decided a moment ago may be missed where the store is told of it: a decision
        reads what is there.
        """
        ...

    def after(self, session_id: str, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order.

        Where those were removed, an entry with the whole state comes first.
        """
        ...

    def deciding(self, session_id: str) -> AbstractContextManager[OpenDecision]:
        """Open the transaction of a decision, alone in the store.

        Leaving it commits; an exception inside undoes it. An exception on leaving means that
        nobody knows: the host then asks `decided`.
        """
        ...

    def condense(self, session_id: str, whole: Entry) -> None:
        """Keep an entry with the whole state in place of all entries up to its number.

        The ids of their decisions stay known.
        """

    def key_of(self, decision_id: str) -> str:
        """Return the key that workspaces note of a decision; it names this store."""
        ...

    def decided(self, key: str) -> bool | None:
        """Tell whether the decision of a key was made; None where the key is another store's.

        It goes on answering when the session's entries were removed.
        """
        ...

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the stored sessions, the one changed last at the end."""
        ...

    def delete(self, session_id: str) -> bool:
        """Remove a session; return whether there was one."""
        ...

    def close(self) -> None:
        """Give back what it holds; the next use opens it again."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a call, as those see it who contribute to it.

    Args:
        id: Its id; None where no session store is bound, and a contributor decides.
        connection: The connection of the open transaction; see `OpenDecision`.
    """

    id: str | None
    connection: Any


@runtime_checkable
class Contributor(Protocol):
    """A participant whose record is part of the call's one decision.

    Attributes:
        contributes: Whether it has something to record for this call.
    """

    contributes: bool

    def contribute(self, decision: Decision) -> None:
        """Record, in the decision's transaction; never waits for another call.

        It comes after every `prepare`, when nothing can conflict any more. An exception refuses
        the decision: all is rolled back. Another connection to the database would wait for it.
        """


@runtime_checkable
class LocksFile(Protocol):
    """An `Exclusive` resource that locks a database's file while a call has it, or its provider.

    It is refused over the file in which calls are decided: a decision would wait for the lock that
    its own call holds. Where the provider says so, too, the host does not even open.
    """

    @property
    def locked_file(self) -> str | Path | None:
        """The file; None where others can write to it."""
        ...

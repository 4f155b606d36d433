"""A stranger's store of sessions: one JSON file, replaced whole, under a lock of its folder.

It imports the contract alone. No ledger can record in its decisions: it is no database.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.session_store import Entry, SessionInfo


@dataclass
class Contents:
    """Everything in the file."""

    identity: str = field(default_factory=lambda: uuid4().hex)
    sessions: dict[str, list[Any]] = field(default_factory=dict)
    changed_at: dict[str, str] = field(default_factory=dict)
    decided: list[str] = field(default_factory=list)

    def after(self, session_id: str, number: int) -> list[Entry]:
        """Return the entries of a session after a number."""
        entries = (Entry(*row) for row in self.sessions.get(session_id, ()))
        return [entry for entry in entries if entry.number > number]


class TheirDecision:
    """An open decision: it changes contents that nobody else has."""

    connection = None

    def __init__(self, contents: Contents, session_id: str) -> None:
        self._contents = contents
        self._session_id = session_id

    def after(self, number: int) -> Sequence[Entry]:
        """Return the entries after a number."""
        if number and self._session_id not in self._contents.sessions:
            raise StateError(f"The session {self._session_id} was deleted. Begin it anew.")
        return self._contents.after(self._session_id, number)

    def append(self, entry: Entry) -> None:
        """Record an entry."""
        self._contents.sessions.setdefault(self._session_id, []).append(entry)
        self._contents.changed_at[self._session_id] = datetime.now(UTC).isoformat()
        self._contents.decided.append(entry.decision_id)


class TheirSessions:
    """The entries of all sessions in a folder; a `SessionStore`."""

    waits = True
    database = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "sessions.json"

    def has_moved(self, session_id: str, number: int) -> bool:
        """Tell whether there are entries after a number."""
        return bool(self.after(session_id, number))

    def after(self, session_id: str, number: int) -> Sequence[Entry]:
        """Return the entries after a number."""
        return self._read().after(session_id, number)

    @contextmanager
    def deciding(self, session_id: str) -> Generator[TheirDecision]:
        """Open a decision."""
        with self._changing() as contents:
            yield TheirDecision(contents, session_id)

    def condense(self, session_id: str, whole: Entry) -> None:
        """Keep the whole state in place of what led to it."""
        with self._changing() as contents:
            if session_id in contents.sessions:
                later = contents.after(session_id, whole.number)
                contents.sessions[session_id] = [whole, *later]

    def key_of(self, decision_id: str) -> str:
        """Return the key of a decision."""
        with self._changing() as contents:
            return f"theirs:{contents.identity}:{decision_id}"

    def decided(self, key: str) -> bool | None:
        """Tell whether a decision was made."""
        contents = self._read()
        store, _, decision_id = key.rpartition(":")
        return decision_id in contents.decided if store == f"theirs:{contents.identity}" else None

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the sessions, the one changed last at the end."""
        contents = self._read()
        ordered = sorted(contents.changed_at.items(), key=lambda changed: changed[1])
        return [
            SessionInfo(id_, contents.sessions[id_][-1][0], datetime.fromisoformat(moment))
            for id_, moment in ordered
        ]

    def delete(self, session_id: str) -> bool:
        """Remove a session."""
        with self._changing() as contents:
            contents.changed_at.pop(session_id, None)
            return contents.sessions.pop(session_id, None) is not None

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _read(self) -> Contents:
        try:
            return Contents(**json.loads(self._file.read_text()))
        except FileNotFoundError:
            return Contents()
        except (OSError, ValueError) as error:
            raise StateError(f"{self._file} cannot be read: {error}. Restore it.") from error

    @contextmanager
    def _changing(self) -> Generator[Contents]:
        """Give the contents to one at a time; leaving replaces the file, an exception does not."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            contents = self._read()
            yield contents
            written = self._folder / "sessions.json.new"
            written.write_text(json.dumps(vars(contents)))
            written.replace(self._file)
        finally:
            os.close(lock)

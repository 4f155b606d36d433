"""Questions in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import Answer, Principal, StateError
from toolstile_hookspecs.services.approval_store import (
    OPEN,
    AnswerRecord,
    EventRecord,
    GrantRecord,
    Listener,
    Question,
    QuestionState,
)
from toolstile_plugins.sqlite_file import SqliteFile

_VERSION: Final = 3
_TABLES: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS toolstile_questions (
    number INTEGER PRIMARY KEY,
    ticket TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    created REAL NOT NULL,
    expires REAL NOT NULL,
    state TEXT NOT NULL,
    question TEXT NOT NULL,
    sealed BLOB NOT NULL,
    answer TEXT,
    proof BLOB,
    holder TEXT,
    held_until REAL
);
CREATE INDEX IF NOT EXISTS toolstile_questions_by_state ON toolstile_questions (state, created);
CREATE INDEX IF NOT EXISTS toolstile_questions_by_end ON toolstile_questions (expires);
CREATE TABLE IF NOT EXISTS toolstile_grants (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    expires REAL NOT NULL,
    sealed BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS toolstile_events (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    expiry_of TEXT UNIQUE,
    due REAL NOT NULL,
    sealed BLOB NOT NULL,
    told_record INTEGER NOT NULL DEFAULT 0,
    told_session INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS toolstile_events_by_time ON toolstile_events (due, number);
CREATE INDEX IF NOT EXISTS toolstile_events_to_record
    ON toolstile_events (due, number) WHERE NOT told_record;
CREATE INDEX IF NOT EXISTS toolstile_events_to_session
    ON toolstile_events (session_id, due, number) WHERE NOT told_session;
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_FOUND: Final = "SELECT question, sealed, state, answer, proof FROM toolstile_questions"
_CLAIM: Final = (
    "UPDATE toolstile_questions SET holder = ?, held_until = ? WHERE ticket = ? AND state IN ({}) "
    "AND (holder IS NULL OR holder = ? OR held_until <= ?)"
)
_REMOVE: Final = "DELETE FROM toolstile_questions WHERE expires < ?"
_REMOVE_GRANTS: Final = "DELETE FROM toolstile_grants WHERE expires < ?"
_EVENTS: Final = "SELECT number, session_id, due, sealed FROM toolstile_events"
_TOLD: Final = "UPDATE toolstile_events SET told_{} = 1 WHERE number = ?"
_REMOVE_EVENTS: Final = "DELETE FROM toolstile_events WHERE due < ?"


class SqliteApprovals:
    """Questions in a file of their own, in WAL mode; an `ApprovalStore`.

    Args:
        path: The file; made, with the directories above, when it is first needed.
    """

    waits = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = SqliteFile(Path(path), "full", "questions", _prepare)

    def add(self, question: Question, expiry: EventRecord | None = None) -> None:
        """Keep a question, and the event of its expiry."""
        row = (
            question.ticket,
            question.session_id,
            question.created.timestamp(),
            question.expires.timestamp(),
            question.state.value,
            _written(question),
            question.sealed,
        )
        with self._file.writing() as connection:
            insert = "INSERT INTO toolstile_questions VALUES (NULL, ?, ?, ?, ?, ?, ?, ?"
            connection.execute(f"{insert}, NULL, NULL, NULL, NULL)", row)
            _keep(connection, expiry, question.ticket)

    def get(self, ticket: str) -> Question | None:
        """Return a question as it is now, or None."""
        found = self._found("WHERE ticket = ?", ticket)
        return found[0] if found else None

    def questions(
        self, states: Collection[QuestionState] = OPEN, *, session_id: str | None = None
    ) -> Sequence[Question]:
        """Return the questions that are kept in some states, the oldest first."""
        which = f"WHERE state IN ({_places(states)}) AND session_id = coalesce(?, session_id)"
        return self._found(f"{which} ORDER BY created, number", *states, session_id)

    def answer(
        self, ticket: str, given: AnswerRecord, event: EventRecord | None = None
    ) -> Question | None:
        """Answer a question that waits; return it as it is then."""
        update = (
            "UPDATE toolstile_questions SET state = ?, answer = ?, proof = ? "
            "WHERE ticket = ? AND state = 'waiting' AND expires > ?"
        )
        row = (given.answer.value, _written_answer(given), given.sealed, ticket)
        with self._file.writing() as connection:
            if connection.execute(update, (*row, given.at.timestamp())).rowcount:
                _keep_end(connection, event, ticket)
            return self.get(ticket)

    def claim(self, ticket: str, holder: str, now: datetime, until: datetime) -> bool:
        """Let a holder end the call of an open question until a time."""
        row = (holder, until.timestamp(), ticket, *OPEN, holder, now.timestamp())
        with self._file.writing() as connection:
            return connection.execute(_CLAIM.format(_places(OPEN)), row).rowcount > 0

    def release(self, ticket: str, holder: str) -> None:
        """Give a claim back."""
        update = "UPDATE toolstile_questions SET holder = NULL WHERE ticket = ? AND holder = ?"
        with self._file.writing() as connection:
            connection.execute(update, (ticket, holder))

    def end(self, ticket: str, state: QuestionState, event: EventRecord | None = None) -> None:
        """Put an open question into expired, resumed or withdrawn: its call has ended."""
        update = "UPDATE toolstile_questions SET state = ? WHERE ticket = ? AND state IN"
        with self._file.writing() as connection:
            row = (state.value, ticket, *OPEN)
            ends = connection.execute(f"{update} ({_places(OPEN)})", row).rowcount
            if ends and state is QuestionState.WITHDRAWN:
                _keep_end(connection, event, ticket)

    def grant(self, record: GrantRecord, event: EventRecord | None = None) -> None:
        """Keep a grant."""
        row = (record.id, record.expires.timestamp(), record.sealed)
        with self._file.writing() as connection:
            connection.execute("INSERT INTO toolstile_grants VALUES (NULL, ?, ?, ?)", row)
            _keep(connection, event)

    def grants(self) -> Sequence[GrantRecord]:
        """Return the grants that are kept, the oldest first."""
        rows = self._rows("SELECT id, expires, sealed FROM toolstile_grants ORDER BY number")
        return [
            GrantRecord(id_, datetime.fromtimestamp(expires, UTC), sealed)
            for id_, expires, sealed in rows
        ]

    def revoke(
        self,
        id: str,  # noqa: A002 - it is the id
        event: EventRecord | None = None,
    ) -> None:
        """Remove a grant, if it is there."""
        with self._file.writing() as connection:
            if connection.execute("DELETE FROM toolstile_grants WHERE id = ?", (id,)).rowcount:
                _keep(connection, event)

    def prune(self, before: datetime) -> int:
        """Remove questions and grants that expired before a time; return their number."""
        row = (before.timestamp(),)
        with self._file.writing() as connection:
            removed = connection.execute(_REMOVE, row).rowcount
            removed += connection.execute(_REMOVE_GRANTS, row).rowcount
            connection.execute(_REMOVE_EVENTS, row)
            return removed

    def tell(
        self,
        listener: Listener,
        now: datetime,
        hear: Callable[[EventRecord], object],
        *,
        session_id: str | None = None,
    ) -> None:
        """Tell a listener the events of which it has not heard, the oldest first."""
        of_session = "" if session_id is None else "session_id = ? AND "
        which = f"WHERE {of_session}due <= ? AND NOT told_{listener} ORDER BY due, number LIMIT 1"
        place = [*([] if session_id is None else [session_id]), now.timestamp()]
        # A look for nothing waits for nobody who writes.
        while self._rows(f"{_EVENTS} {which}", *place):
            with self._file.writing() as connection:
                for number, *row in connection.execute(f"{_EVENTS} {which}", place).fetchall():
                    hear(_event(*row))
                    connection.execute(_TOLD.format(listener), (number,))

    def events(self, now: datetime, most: int) -> Sequence[EventRecord]:
        """Return the newest events that are kept, the newest first, told or not."""
        newest = "WHERE due <= ? ORDER BY due DESC, number DESC LIMIT ?"
        rows = self._rows(f"{_EVENTS} {newest}", now.timestamp(), most)
        return [_event(*row) for _, *row in rows]

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()

    def _found(self, which: str, *values: Any) -> list[Question]:
        try:
            return [_read(row) for row in self._rows(f"{_FOUND} {which}", *values)]
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise StateError(
                f"A question in {self._file.path} was altered and cannot be read: {error!s}. Move "
                "the file away, to have the calls made again."
            ) from error

    def _rows(self, select: str, *values: Any) -> list[Any]:
        # A look does not make the file.
        return [*self._file.read(select, *values)] if self._file.path.exists() else []


def _keep(
    connection: sqlite3.Connection, event: EventRecord | None, expiry_of: str | None = None
) -> None:
    if event is not None:
        row = (event.session_id, expiry_of, event.at.timestamp(), event.sealed)
        connection.execute("INSERT INTO toolstile_events VALUES (NULL, ?, ?, ?, ?, 0, 0)", row)


def _keep_end(connection: sqlite3.Connection, event: EventRecord | None, ticket: str) -> None:
    """Keep the event of the end of a question, which does not expire any more."""
    row = (ticket, 0.0 if event is None else event.at.timestamp())
    connection.execute("DELETE FROM toolstile_events WHERE expiry_of = ? AND due > ?", row)
    _keep(connection, event)


def _event(session_id: str, due: float, sealed: bytes) -> EventRecord:
    return EventRecord(session_id, datetime.fromtimestamp(due, UTC), sealed)


def _places(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables.

    Raises:
        StateError: The file is of another version.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > _VERSION:
        raise StateError(
            f"The questions are of version {version}, which this Toolstile does not know (it knows "
            f"{_VERSION}). Use the Toolstile that wrote them, or another file."
        )
    if version < _VERSION:
        connection.executescript(_TABLES)


# --- Their JSON


def _written(question: Question) -> str:
    # In ASCII, as SQLite takes no lone surrogates, which names of files may have.
    return json.dumps(
        {
            "call_id": question.call_id,
            "tool": question.tool,
            "category": question.category,
            "consequence": question.consequence,
            "reasons": question.reasons,
            "arguments": question.arguments,
            "digest": question.digest,
            "principal": _written_principal(question.principal),
            "owner": question.owner,
            "diff": question.diff,
            "shown_before": question.shown_before,
            "asked_by": question.asked_by,
            "definition": question.definition,
            "ticket": question.ticket,
            "session_id": question.session_id,
            "created": question.created.isoformat(),
            "expires": question.expires.isoformat(),
        }
    )


def _read(row: Sequence[Any]) -> Question:
    text, sealed, state, answer, proof = row
    fields = json.loads(text)
    for name in ("reasons", "asked_by"):
        fields[name] = tuple(fields.get(name, ()))
    fields["principal"] = _read_principal(fields["principal"])
    for name in ("created", "expires"):
        fields[name] = datetime.fromisoformat(fields[name])
    given = None if answer is None else _read_answer(answer, proof)
    return Question(**fields, sealed=sealed, state=QuestionState(state), answer=given)


def _written_answer(given: AnswerRecord) -> str:
    by = _written_principal(given.by)
    told = [given.answer.value, by, given.via, given.at.astimezone(UTC).isoformat(), given.reason]
    return json.dumps(told)


def _read_answer(text: str, proof: bytes) -> AnswerRecord:
    answer, (source, id_, groups), via, moment, reason = json.loads(text)
    by = Principal(source, id_, groups)
    return AnswerRecord(Answer(answer), by, via, datetime.fromisoformat(moment), reason, proof)


def _written_principal(principal: Principal | None) -> list[Any] | None:
    if principal is None:
        return None
    return [principal.source, principal.id, sorted(principal.groups)]


def _read_principal(written: Sequence[Any] | None) -> Principal | None:
    return None if written is None else Principal(*written)

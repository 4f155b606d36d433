"""The base of stores of questions in databases; the statements suit SQLite and PostgreSQL."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import Durability, StateError
from toolstile_hookspecs.services.approval_store import (
    OPEN,
    AnswerRecord,
    EventRecord,
    GrantRecord,
    Listener,
    Question,
    QuestionState,
)
from toolstile_hookspecs.services.json_forms import ANSWER, QUESTION
from toolstile_plugins.sqlite_file import SqliteFile, SqlTables

log = logging.getLogger("toolstile.inbox")

TABLES: Final = """\
CREATE TABLE {new}toolstile_questions (
    number {number},
    ticket TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    created {real} NOT NULL,
    expires {real} NOT NULL,
    state TEXT NOT NULL,
    question TEXT NOT NULL,
    sealed {bytes} NOT NULL,
    answer TEXT,
    proof {bytes},
    holder TEXT,
    held_until {real}
);
CREATE INDEX {new}toolstile_questions_by_state ON toolstile_questions (state, created);
CREATE INDEX {new}toolstile_questions_by_end ON toolstile_questions (expires);
CREATE TABLE {new}toolstile_grants (
    number {number},
    id TEXT NOT NULL UNIQUE,
    expires {real} NOT NULL,
    sealed {bytes} NOT NULL
);
CREATE TABLE {new}toolstile_events (
    number {number},
    session_id TEXT NOT NULL,
    expiry_of TEXT UNIQUE,
    due {real} NOT NULL,
    sealed {bytes} NOT NULL,
    told_record {flag},
    told_session {flag}
);
CREATE INDEX {new}toolstile_events_by_time ON toolstile_events (due, number);
CREATE INDEX {new}toolstile_events_to_record
    ON toolstile_events (due, number) WHERE NOT told_record;
CREATE INDEX {new}toolstile_events_to_session
    ON toolstile_events (session_id, due, number) WHERE NOT told_session"""
"""The tables of questions, grants and events, with places for the types of a database."""
_FOUND: Final = "SELECT question, sealed, state, answer, proof FROM toolstile_questions"
_ADD: Final = (
    "INSERT INTO toolstile_questions "
    "(ticket, session_id, created, expires, state, question, sealed) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (ticket) DO NOTHING"
)
_ANSWER: Final = (
    "UPDATE toolstile_questions SET state = ?, answer = ?, proof = ? "
    "WHERE ticket = ? AND state = 'waiting' AND expires > ?"
)
_CLAIM: Final = (
    "UPDATE toolstile_questions SET holder = ?, held_until = ? WHERE ticket = ? AND state IN ({}) "
    "AND (holder IS NULL OR holder = ? OR held_until <= ?)"
)
_RELEASE: Final = "UPDATE toolstile_questions SET holder = NULL WHERE ticket = ? AND holder = ?"
_END: Final = "UPDATE toolstile_questions SET state = ? WHERE ticket = ? AND state IN ({})"
_REMOVE: Final = "DELETE FROM toolstile_questions WHERE expires < ?"
_GRANT: Final = "INSERT INTO toolstile_grants (id, expires, sealed) VALUES (?, ?, ?)"
_GRANTS: Final = "SELECT id, expires, sealed FROM toolstile_grants ORDER BY number"
_REVOKE: Final = "DELETE FROM toolstile_grants WHERE id = ?"
_REMOVE_GRANTS: Final = "DELETE FROM toolstile_grants WHERE expires < ?"
_KEEP: Final = (
    "INSERT INTO toolstile_events (session_id, expiry_of, due, sealed) VALUES (?, ?, ?, ?)"
)
_EVENTS: Final = "SELECT number, session_id, due, sealed FROM toolstile_events"
_TOLD: Final = "UPDATE toolstile_events SET told_{} = ? WHERE number = ?"
_UNDUE: Final = "DELETE FROM toolstile_events WHERE expiry_of = ? AND due > ?"
_REMOVE_EVENTS: Final = "DELETE FROM toolstile_events WHERE due < ?"
_EARLIER = ("answer", "by", "via", "at", "reason")
"""The fields of an answer as earlier versions stored them: in a list."""


class SqlApprovals(SqlTables):
    """Questions, grants and events in tables of a database; an `ApprovalStore`.

    `altered` is the place of an altered question, and a remedy, for messages.
    """

    _alone: str = ""
    """The SQL that locks the rows of a SELECT for the rest of a transaction."""

    def __init__(self, database: Any, altered: tuple[str, str]) -> None:
        super().__init__(database)
        self._altered = altered

    def _read(self, select: str, *values: Any) -> list[Any]:
        return list(self._database.read(select, *values))

    def _tell(self, hear: Callable[[EventRecord], object], event: EventRecord) -> None:
        # Within the transaction that marks the event as delivered.
        hear(event)

    def add(self, question: Question, expiry: EventRecord | None = None) -> None:
        row = (
            question.ticket,
            question.session_id,
            question.created.timestamp(),
            question.expires.timestamp(),
            question.state.value,
            QUESTION.text(question),
            question.sealed,
        )
        with self._database.writing() as connection:
            if connection.execute(_ADD, row).rowcount:
                _keep(connection, expiry, question.ticket)

    def get(self, ticket: str) -> Question | None:
        rows = self._read(f"{_FOUND} WHERE ticket = ?", ticket)
        return self._question(rows[0]) if rows else None

    def questions(
        self, states: Collection[QuestionState] = OPEN, *, session_id: str | None = None
    ) -> Sequence[Question]:
        which = f"WHERE state IN ({_places(states)}) AND session_id = coalesce(?, session_id)"
        found: list[Question] = []
        for row in self._read(f"{_FOUND} {which} ORDER BY created, number", *states, session_id):
            try:
                found.append(self._question(row))
            except StateError as error:
                # Because other questions can still be answered, this one is skipped.
                log.warning("%s It is left out.", error)
        return found

    def answer(
        self, ticket: str, given: AnswerRecord, event: EventRecord | None = None
    ) -> Question | None:
        row = (given.answer.value, ANSWER.text(given), given.sealed, ticket)
        with self._database.writing() as connection:
            if connection.execute(_ANSWER, (*row, given.at.timestamp())).rowcount:
                _keep_end(connection, event, ticket)
            return self.get(ticket)

    def claim(self, ticket: str, holder: str, now: datetime, until: datetime) -> bool:
        row = (holder, until.timestamp(), ticket, *OPEN, holder, now.timestamp())
        return bool(self._database.change(_CLAIM.format(_places(OPEN)), *row))

    def release(self, ticket: str, holder: str) -> None:
        self._database.change(_RELEASE, ticket, holder)

    def end(self, ticket: str, state: QuestionState, event: EventRecord | None = None) -> None:
        with self._database.writing() as connection:
            row = (state.value, ticket, *OPEN)
            ends = connection.execute(_END.format(_places(OPEN)), row).rowcount
            if ends and state is QuestionState.WITHDRAWN:
                _keep_end(connection, event, ticket)

    def grant(self, record: GrantRecord, event: EventRecord | None = None) -> None:
        row = (record.id, record.expires.timestamp(), record.sealed)
        with self._database.writing() as connection:
            connection.execute(_GRANT, row)
            _keep(connection, event)

    def grants(self) -> Sequence[GrantRecord]:
        rows = self._read(_GRANTS)
        return [GrantRecord(id_, _moment(expires), sealed) for id_, expires, sealed in rows]

    def revoke(
        self,
        id: str,  # noqa: A002 - it is the id
        event: EventRecord | None = None,
    ) -> None:
        with self._database.writing() as connection:
            if connection.execute(_REVOKE, (id,)).rowcount:
                _keep(connection, event)

    def prune(self, before: datetime) -> int:
        row = (before.timestamp(),)
        with self._database.writing() as connection:
            removed: int = connection.execute(_REMOVE, row).rowcount
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
        of_session = "" if session_id is None else "session_id = ? AND "
        which = f"WHERE {of_session}due <= ? AND NOT told_{listener} ORDER BY due, number LIMIT 1"
        next_ = f"{_EVENTS} {which}"
        place = [*([] if session_id is None else [session_id]), now.timestamp()]
        # Read first, because without events a transaction would wait for writers in vain.
        while self._read(next_, *place):
            with self._database.writing() as connection:
                for number, *row in connection.execute(next_ + self._alone, place).fetchall():
                    self._tell(hear, _event(*row))
                    connection.execute(_TOLD.format(listener), (True, number))

    def events(self, now: datetime, most: int) -> Sequence[EventRecord]:
        newest = "WHERE due <= ? ORDER BY due DESC, number DESC LIMIT ?"
        rows = self._read(f"{_EVENTS} {newest}", now.timestamp(), most)
        return [_event(*row) for _, *row in rows]

    def _question(self, row: Sequence[Any]) -> Question:
        try:
            return question_of(row)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            place, remedy = self._altered
            raise StateError(
                f"A question in {place} was altered and cannot be read: {error!s}. {remedy}, to "
                "have the calls made again."
            ) from error


def question_of(row: Sequence[Any]) -> Question:
    """Return the question of a row: its JSON, seal, state, answer, and the proof of the answer.

    Raises:
        ValueError: The row was altered; also `TypeError`.
    """
    text, sealed, state, answer, proof = row
    given = None
    if answer is not None:
        found: list[Any] | dict[str, Any] = json.loads(answer)
        if isinstance(found, list):
            found = dict(zip(_EARLIER, found, strict=True))
        given = ANSWER.read({**found, "sealed": proof})
    beside = {"sealed": sealed, "state": state, "answer": given}
    question = QUESTION.read({**json.loads(text), **beside})
    json.loads(question.arguments)
    return question


def _keep(connection: Any, event: EventRecord | None, expiry_of: str | None = None) -> None:
    if event is not None:
        row = (event.session_id, expiry_of, event.at.timestamp(), event.sealed)
        connection.execute(_KEEP, row)


def _keep_end(connection: Any, event: EventRecord | None, ticket: str) -> None:
    """Store the event of a closed question, in place of the event of its expiry."""
    row = (ticket, 0.0 if event is None else event.at.timestamp())
    connection.execute(_UNDUE, row)
    _keep(connection, event)


def _event(session_id: str, due: float, sealed: bytes) -> EventRecord:
    return EventRecord(session_id, _moment(due), sealed)


def _moment(seconds: Any) -> datetime:
    """Return a time; the first possible time for an altered value, as only the seal counts."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.min.replace(tzinfo=UTC)


def _places(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


# --- A file


_VERSION: Final = 3
_SQLITE: Final = {
    "new": "IF NOT EXISTS ",
    "number": "INTEGER PRIMARY KEY",
    "real": "REAL",
    "bytes": "BLOB",
    "flag": "INTEGER NOT NULL DEFAULT 0",
}
_TABLES: Final = f"""
BEGIN IMMEDIATE;
{TABLES.format(**_SQLITE)};
{{}};
COMMIT;
"""
_OWN_VERSION: Final = f"PRAGMA user_version = {_VERSION}"
_SHARED_VERSION: Final = f"""
CREATE TABLE IF NOT EXISTS toolstile_approvals_about (version INTEGER NOT NULL);
INSERT INTO toolstile_approvals_about SELECT {_VERSION}
    WHERE NOT EXISTS (SELECT 1 FROM toolstile_approvals_about)
"""  # noqa: S608 - our own statements


class SqliteApprovals(SqlApprovals):
    """Questions in a file, in WAL mode; `shared` if the file also has stored sessions.

    The file and its directories are made at the first use.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        shared: bool = False,
        durability: Durability = "power",
    ) -> None:
        prepare = _prepare_shared if shared else _prepare
        file = SqliteFile(Path(path), durability, "questions", prepare)
        super().__init__(file, (str(file.path), "Move the file away"))

    def _read(self, select: str, *values: Any) -> list[Any]:
        # Because reading must not make the file.
        return super()._read(select, *values) if self._database.path.exists() else []


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables, or raise `StateError` if the file is of another version."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    _refuse_newer(version)
    if version < _VERSION:
        connection.executescript(_TABLES.format(_OWN_VERSION))


def _prepare_shared(connection: sqlite3.Connection) -> None:
    """Make the tables in a file of sessions, whose `user_version` is the ledger's."""
    about = "SELECT 1 FROM sqlite_master WHERE name = 'toolstile_approvals_about'"
    if not connection.execute(about).fetchone():
        connection.executescript(_TABLES.format(_SHARED_VERSION))
    ((version,),) = connection.execute("SELECT version FROM toolstile_approvals_about")
    _refuse_newer(version)


def _refuse_newer(version: int) -> None:
    if version > _VERSION:
        raise StateError(
            f"The questions are of version {version}, which this Toolstile does not know (it knows "
            f"{_VERSION}). Use the Toolstile that wrote them, or another file."
        )

"""The calls in record files: read on, indexed in SQLite, and followed for open pages."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from heapq import merge
from itertools import count, groupby
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import finalize

from toolstile_hookspecs import Status, TransactionStatus
from toolstile_plugins.console.pages import id_of
from toolstile_plugins.console.sums import Sum, sums_of
from toolstile_plugins.record.reader import records_in
from toolstile_plugins.record.schema import (
    RecordedApproval,
    RecordedCall,
    RecordedTransaction,
    RecordError,
    plain_line,
    read_line,
)
from toolstile_plugins.sqlite_file import SqliteFile

_HEAD: Final = 256
"""The bytes at the beginning of a record, which identify it: they contain its time."""
_GIST: Final = 200


@dataclass(frozen=True, slots=True)
class Row:
    """A call in a list."""

    path: Path  # the record
    start: int  # the place of the call's line
    call_id: str
    tool: str
    status: Status
    at: datetime
    fate: str | None  # the status of the end of its transaction, None if that has not ended
    seconds: float
    session: str
    principal: str  # the id of the principal, "" for a call without one
    parent: str | None
    gist: str  # the first line that the model read
    transaction: str | None  # the id of the transaction that the call was part of

    @property
    def name(self) -> str:
        """Its name in addresses."""
        return f"{id_of(str(self.path))}-{self.start}"

    @property
    def is_unkept(self) -> bool:
        """True if the call succeeded, and its transaction was not kept."""
        kept = {None, TransactionStatus.COMMITTED.value, TransactionStatus.UNKNOWN.value}
        return self.status is Status.SUCCEEDED and self.fate not in kept

    @property
    def ended(self) -> datetime:
        return self.at + timedelta(seconds=self.seconds)

    def wire(self) -> dict[str, object]:
        fields = {**asdict(self), "name": self.name, "at": self.at.isoformat()}
        return {**fields, "path": str(self.path)}


class Mark(NamedTuple):
    """The place in a record where reading ended."""

    head: bytes = b""  # the beginning of the record at the time, which identifies it
    end: int = 0  # the place of the next line


Lines = list[tuple[int, bytes]]
"""Lines of a record, each with its place."""


def read_on(path: Path, mark: Mark) -> tuple[Lines, Mark] | None:
    """Return a block of lines behind a mark, and the next mark; None if the record was replaced.

    A last line without its end is left for later.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if not head.startswith(mark.head) or os.fstat(file.fileno()).st_size < mark.end:
            return None
        end = file.seek(mark.end)
        lines: Lines = []
        for line in file.readlines(_BLOCK):
            if not line.endswith(b"\n"):
                # Its rest may come next, because it is written at this moment.
                break
            lines.append((end, line))
            end += len(line)
        return lines, Mark(head[:end], end)


Said = list[tuple[int, Any]]
"""Lines of a record as JSON data, each with its place."""


def said_in(lines: Lines) -> Said:
    """Return the lines that are JSON data."""
    found: Said = []
    for start, line in lines:
        # `toolstile record verify` names the damaged lines.
        with suppress(ValueError):
            found.append((start, plain_line(line)))
    return found


def rows_of(path: Path, lines: Said) -> list[Row]:
    """Return the calls in lines of a record."""
    rows: list[Row] = []
    for start, said in lines:
        with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError):
            if said["kind"] == "call":
                envelope = said["envelope"]
                read = said.get("text", envelope.get("error", envelope.get("data")))
                gist = read.strip().partition("\n")[0][:_GIST] if isinstance(read, str) else ""
                row = Row(
                    path,
                    start,
                    call_id=said["id"],
                    tool=envelope["tool"],
                    status=Status(said["status"]),
                    at=datetime.fromisoformat(said["at"]),
                    fate=None,
                    seconds=said["seconds"],
                    session=said["session"],
                    principal=said.get("user") or "",
                    parent=said.get("parent"),
                    gist=gist,
                    transaction=said.get("transaction"),
                )
                # Because one damaged line would keep the index from all lines, check its types.
                texts = [row.call_id, row.tool, row.session, row.principal, _text_of(row.ended)]
                "".join([*texts, row.parent or "", row.transaction or ""])
                rows.append(row)
    return rows


_NOTED: Final = {"transaction": ("id", "status"), "approval": ("call", "at")}
"""The lines that others refer to, with the fields of their id and of a noted value."""


def _noted(lines: Said, file: int | None) -> Iterator[tuple[object, ...]]:
    for start, said in lines:
        with suppress(KeyError, TypeError):
            id_, value = (said[name] for name in _NOTED[said["kind"]])
            if isinstance(id_, str) and isinstance(value, str):
                yield said["kind"], id_, file, start, value


_OF_FILES: Final = {
    "files": "id", "calls": "file", "notes": "in_file", "sessions": "file", "sums": "file"
}  # fmt: skip
"""The tables, each with its column of files."""
_VERSION: Final = 4
_BLOCK: Final = 4 * 1024 * 1024
"""The bytes that are indexed at once, while other processes wait for the index."""
_TABLES: Final = f"""
    BEGIN IMMEDIATE;
    {"".join(f"DROP TABLE IF EXISTS {name};" for name in [*_OF_FILES, "ends"])}
    CREATE TABLE files (
        id INTEGER PRIMARY KEY, path TEXT NOT NULL, name TEXT NOT NULL, head BLOB, read INTEGER
    );
    CREATE TABLE calls (
        file INTEGER, start INTEGER, call TEXT, tool TEXT, status TEXT, at TEXT, seconds REAL,
        session TEXT, principal TEXT, parent TEXT, gist TEXT, whole TEXT, ended TEXT,
        PRIMARY KEY (file, start)
    ) WITHOUT ROWID;
    CREATE TABLE notes (
        kind TEXT, id TEXT, in_file INTEGER, at_start INTEGER, value TEXT, PRIMARY KEY (kind, id)
    ) WITHOUT ROWID;
    CREATE TABLE sessions (
        session TEXT, file INTEGER, name TEXT, number INTEGER, failed INTEGER, first TEXT,
        last TEXT, PRIMARY KEY (session, file)
    ) WITHOUT ROWID;
    CREATE TABLE sums (
        at INTEGER, kind TEXT, name TEXT, file INTEGER, number INTEGER, seconds REAL,
        PRIMARY KEY (at, kind, name, file)
    ) WITHOUT ROWID;
    CREATE INDEX sessions_name ON sessions (name);
    CREATE INDEX calls_call ON calls (call);
    CREATE INDEX calls_ended ON calls (ended);
    CREATE INDEX calls_parent ON calls (parent) WHERE parent IS NOT NULL;
    CREATE INDEX calls_session ON calls (session, ended);
    CREATE INDEX calls_status ON calls (status, ended);
    PRAGMA user_version = {_VERSION};
    COMMIT;
"""
_FILES: Final = "SELECT * FROM files"
_ROWS: Final = (
    "SELECT path, start, call, tool, status, at, value, seconds, session, principal, parent, gist, "
    "whole FROM calls JOIN files ON files.id = file "
    "LEFT JOIN notes ON kind = 'transaction' AND notes.id = whole"
)
_NOTE: Final = (
    "SELECT path, at_start FROM notes JOIN files ON files.id = in_file WHERE kind = ? "
    "AND notes.id = ?"
)
_OF_FILE: Final = "file = (SELECT id FROM files WHERE name = ?)"
_NEAR: Final = f"{_OF_FILE} AND session = ?"
_PLACE: Final = f"SELECT ended, file, start FROM calls WHERE {_OF_FILE} AND start = ?"  # noqa: S608
_SUMS: Final = (
    "SELECT at, kind, name, sum(number), total(seconds) FROM sums WHERE at >= ? GROUP BY 1, 2, 3"
)
_SESSIONS: Final = (
    "SELECT session, name, sum(number), sum(failed), min(first), max(last) FROM sessions "
    "WHERE ? IN ('', name) GROUP BY session HAVING (max(last), session) < (?, ?) "
    "ORDER BY 6 DESC, 1 DESC LIMIT ?"
)
_LATEST: Final = "~"
"""A text after every time."""
_WAITED: Final = (
    "SELECT status, ended, value FROM calls LEFT JOIN notes ON kind = 'approval' AND id = call "
    "WHERE session = ? AND call = ? AND calls.at < ? ORDER BY calls.at DESC LIMIT 1"
)
_LONG: Final = 18
"""More digits than a place in a file has."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The calls that a person asks for; an empty field matches every call."""

    tool: str = ""  # a glob of tools
    outcome: str = ""
    session: str = ""
    principal: str = ""
    since: datetime | None = None  # the earliest end of a call
    until: datetime | None = None  # the time before which a call has ended

    def has(self, row: Row) -> bool:
        return (
            fnmatchcase(row.tool, self.tool or "*")
            and self.outcome in {"", row.status.value}
            and self.session in {"", row.session}
            and self.principal in {"", row.principal}
            and (self.since is None or row.ended >= self.since)
            and (self.until is None or row.ended < self.until)
        )

    def conditions(self) -> Iterator[tuple[str, str]]:
        """Yield the conditions in SQL, each with its value."""
        if self.tool:
            yield "tool GLOB ?", self.tool.replace("[!", "[^")
        named = {"status": self.outcome, "session": self.session, "principal": self.principal}
        yield from ((f"{name} = ?", value) for name, value in named.items() if value)
        for operator, moment in ((">=", self.since), ("<", self.until)):
            if moment is not None:
                yield f"ended {operator} ?", _text_of(moment)


class SessionRow(NamedTuple):
    """A session in a list."""

    session: str
    name: str  # in addresses
    calls: int
    failed: int  # the number of calls that did not succeed
    first: datetime  # the beginning of its first call
    last: datetime  # the end of its last call

    @property
    def place(self) -> str:
        """Its place in the list, from which the next page continues."""
        return f"{_text_of(self.last)} {self.session}"

    def wire(self) -> dict[str, object]:
        return {**self._asdict(), "first": _text_of(self.first), "last": _text_of(self.last)}


class CallIndex:
    """The calls of records. Each query first indexes the lines that were written since the last.

    Several consoles may share an index. It has no call whose record was removed. The `places` are
    records and folders of records; the file at `path` is beside the first of them by default.
    """

    def __init__(self, places: Sequence[Path], path: Path | None = None) -> None:
        self.places = places
        beside = (places[0] if places else Path("calls")).absolute()
        path = path or beside.with_name(f".{beside.name}.index")
        self._file = SqliteFile(path, "process", "index of calls", _prepare)
        # Not every server tells an ASGI application that it ends.
        finalize(self, self._file.close)

    def page(self, asked: Filter, most: int, before: str = "") -> list[Row]:
        """Return at most `most` calls, the newest first, or the ones before a named call."""
        conditions = [*asked.conditions()]
        clauses = [clause for clause, _ in conditions]
        values: list[object] = [value for _, value in conditions]
        if before:
            clauses.append(f"(ended, file, start) < ({_PLACE})")
            values += _parts_of(before)
        where = " AND ".join(clauses) or "1"
        order = "ORDER BY ended DESC, file DESC, start DESC LIMIT ?"
        return self._rows(f"{where} {order}", *values, most)

    def find(self, name: str) -> tuple[Row, RecordedCall] | None:
        """Return a whole call; None if its record does not have it any longer."""
        for row in self._rows(f"{_OF_FILE} AND start = ?", *_parts_of(name)):
            call = _line_at(row.path, row.start)
            if isinstance(call, RecordedCall) and call.id == row.call_id:
                return row, call
        return None

    def end_of(self, transaction: str) -> RecordedTransaction | None:
        """Return the end of a transaction; None if no record has it."""
        end = self._note_of("transaction", transaction)
        return end if isinstance(end, RecordedTransaction) and end.id == transaction else None

    def answer_to(self, call_id: str) -> RecordedApproval | None:
        """Return the last answer to a call; None if no record has one."""
        answer = self._note_of("approval", call_id)
        return answer if isinstance(answer, RecordedApproval) and answer.call == call_id else None

    def _note_of(self, kind: str, id_: str) -> object:
        found = self._file.read(_NOTE, kind, id_)
        return _line_at(Path(found[0][0]), found[0][1]) if found else None

    def last_of(self, session: str, call_id: str) -> Row | None:
        """Return the newest call of an id in a session."""
        found = self._rows("call = ? AND session = ? ORDER BY ended DESC LIMIT 1", call_id, session)
        return found[0] if found else None

    def parent_of(self, row: Row) -> Row | None:
        """Return the call that made a call: the next of its id, since it ended later."""
        near = f"{_NEAR} AND call = ? AND start > ? ORDER BY start LIMIT 1"
        found = self._rows(near, id_of(str(row.path)), row.session, row.parent, row.start)
        return found[0] if found else None

    def nested_in(self, row: Row) -> list[Row]:
        """Return the calls that a call made: the ones before it, and after the last of its id."""
        place = id_of(str(row.path)), row.session, row.call_id
        earlier = f"{_NEAR} AND call = ? AND start < ? ORDER BY start DESC LIMIT 1"
        last = [other.start for other in self._rows(earlier, *place, row.start)]
        between = f"{_NEAR} AND parent = ? AND start BETWEEN ? AND ? ORDER BY start"
        return self._rows(between, *place, *(last or [0]), row.start)

    def sums(self, since: int) -> list[Sum]:
        """Return the sums after a time, in seconds since 1970."""
        return [Sum(*each) for each in self._read(_SUMS, since)]

    def sessions(self, most: int, before: str = "", name: str = "") -> list[SessionRow]:
        """Return at most `most` sessions, the newest first, or those before a place in the list.

        The name selects one session.
        """
        last, _, session = (before or _LATEST).partition(" ")
        return [
            SessionRow(*row[:4], *map(datetime.fromisoformat, row[4:]))
            for row in self._read(_SESSIONS, name, last, session, most)
        ]

    def newest_of(self, session: str, most: int) -> list[tuple[Path, RecordedCall]]:
        """Return the newest whole calls of a session: in the order of a record, else by time."""
        newest = "session = ? ORDER BY ended DESC, file DESC, start DESC LIMIT ?"
        rows = sorted(self._rows(newest, session, most), key=lambda row: (row.path, row.start))
        records = [[*own] for _, own in groupby(rows, key=lambda row: row.path)]
        merged = merge(*records, key=lambda row: row.ended)
        calls = ((row.path, _line_at(row.path, row.start)) for row in merged)
        return [(path, call) for path, call in calls if isinstance(call, RecordedCall)]

    def paths(self) -> list[Path]:
        """Return the records that exist."""
        found: list[Path] = []
        for place in self.places:
            # The first call makes the record.
            with suppress(RecordError):
                found += records_in(place)
        return found

    def marks(self) -> dict[Path, Mark]:
        """Return the mark at the end of the indexed part of each record."""
        if not self.places:
            return {}
        self._catch_up()
        return {path: mark for path, (_, mark) in _marks(self._file.read(_FILES)).items()}

    def _read(self, query: str, *values: object) -> list[Any]:
        if not self.places:
            return []
        self._catch_up()
        return self._file.read(query, *values)

    def _rows(self, where: str, *values: object) -> list[Row]:
        found = self._read(f"{_ROWS} WHERE {where}", *values)
        return [
            Row(Path(path), start, call, tool, Status(told), datetime.fromisoformat(at), *more)
            for path, start, call, tool, told, at, *more in found
        ]

    def _catch_up(self) -> None:
        """Index the lines since the last look, and drop the calls of removed records."""
        marks = {path: mark.end for path, (_, mark) in _marks(self._file.read(_FILES)).items()}
        behind = True
        with suppress(OSError):
            behind = marks != {path: path.stat().st_size for path in self.paths()}
        while behind:
            with self._file.writing() as connection:
                # Index a block of each record, so that other processes get their turn.
                known = _marks(connection.execute(_FILES))
                found = self.paths()
                for path in known.keys() - set(found):
                    _forget(connection, known[path][0])
                is_more = False
                for path in found:
                    file, mark = known.get(path, (None, Mark()))
                    # The record may be removed or replaced meanwhile.
                    with suppress(OSError):
                        written = read_on(path, mark)
                        if written is None and file is not None:
                            _forget(connection, file)
                            is_more = True
                        elif written is not None and written[0]:
                            _add(connection, file, path, *written)
                            is_more = is_more or written[1].end - mark.end >= _BLOCK
                behind = is_more


def _prepare(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        connection.executescript(_TABLES)


def _marks(files: Iterable[tuple[int, str, str, bytes, int]]) -> dict[Path, tuple[int, Mark]]:
    return {Path(path): (file, Mark(head, end)) for file, path, _, head, end in files}


def _forget(connection: sqlite3.Connection, file: int) -> None:
    for table, column in _OF_FILES.items():
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (file,))  # noqa: S608 - our names


_ADD_SESSIONS: Final = """
    INSERT INTO sessions
    SELECT session, file, id_of(session), count(*), sum(status <> 'succeeded'), min(at), max(ended)
    FROM calls WHERE file = ? AND start >= ? GROUP BY session
    ON CONFLICT DO UPDATE SET number = number + excluded.number, failed = failed + excluded.failed,
    first = min(first, excluded.first), last = max(last, excluded.last)
"""
_ADD_SUM: Final = """
    INSERT INTO sums VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    number = number + excluded.number, seconds = seconds + excluded.seconds
"""


def _add(
    connection: sqlite3.Connection, file: int | None, path: Path, lines: Lines, mark: Mark
) -> None:
    place = str(path), id_of(str(path)), *mark
    replaced = connection.execute("REPLACE INTO files VALUES (?, ?, ?, ?, ?)", (file, *place))
    file = replaced.lastrowid
    said = said_in(lines)
    rows = rows_of(path, said)
    connection.executemany(
        "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                file, row.start, row.call_id, row.tool, row.status,
                _text_of(row.at), row.seconds, row.session, row.principal, row.parent, row.gist,
                row.transaction, _text_of(row.ended),
            )
            for row in rows
        ],
    )  # fmt: skip
    connection.create_function("id_of", 1, id_of, deterministic=True)
    connection.execute(_ADD_SESSIONS, (file, lines[0][0]))
    connection.executemany("REPLACE INTO notes VALUES (?, ?, ?, ?, ?)", _noted(said, file))

    def waited(*key: str) -> Any:
        return connection.execute(_WAITED, key).fetchone()

    starts = {row.start for row in rows}
    sums = sums_of([call for start, call in said if start in starts], waited)
    connection.executemany(
        _ADD_SUM, [(at, kind, name, file, *more) for at, kind, name, *more in sums]
    )


def _line_at(path: Path, start: int) -> object:
    with suppress(OSError, ValueError), path.open("rb") as file:
        file.seek(start)
        return read_line(file.readline().rstrip(b"\n"))
    return None


def _parts_of(name: str) -> tuple[str, int]:
    """Return the file and the place in the name of a call in addresses."""
    file, _, start = name.partition("-")
    return file, int(start) if start.isdecimal() and len(start) < _LONG else -1


def _text_of(moment: datetime) -> str:
    # Sorted as text, they are sorted by time.
    return moment.astimezone(UTC).isoformat()


MOST: Final = 100
"""The newest calls in memory, as many as a page shows."""

_IS_END: Final = b'"kind":"transaction"'
_beginnings = count(1)


class Look(NamedTuple):
    """The newest calls after a look at the records. As a text, it is the name of its place."""

    begun: int
    number: int
    rows: Sequence[tuple[int, Row]] = ()  # each with the number of the look that found it
    dropped: int = 0  # the last look some of whose calls are not in memory

    def __str__(self) -> str:
        return f"{self.begun}-{self.number}"

    def since(self, place: str, asked: Filter) -> list[Row] | None:
        """Return the calls after a place, the newest first; None if some are not in memory."""
        begun, _, look = place.partition("-")
        if begun != str(self.begun) or not look.isdecimal():
            return None
        held = [row for number, row in reversed(self.rows) if number > int(look)]
        fills_page = len(held) == MOST and asked == Filter()
        is_whole = fills_page or int(look) >= self.dropped
        return [row for row in held if asked.has(row)] if is_whole else None


class Tail:
    """The newest calls since it began to follow the records.

    Between two looks it reads at most as many calls as a page shows: the index has the others. A
    page continues from the place of a look.
    """

    def __init__(self, index: CallIndex) -> None:
        self._index = index
        self._marks: dict[Path, Mark] = {}
        self._last: Look | None = None

    def look(self) -> Look:
        """Read the lines since the last look, and return the calls up to here."""
        found = None if self._last is None else self._follow(self._last)
        if found is None:
            # At first, if a record was replaced, or if more came than is read here.
            self._marks, found = self._index.marks(), Look(next(_beginnings), 0)
        self._last = found
        return found

    def _follow(self, last: Look) -> Look | None:
        """Read the new lines of the records; return None if there are too many."""
        new: list[Row] = []
        is_whole, is_any_end = True, False
        for path in self._index.paths():
            mark = self._marks.get(path, Mark())
            # The record may be removed meanwhile.
            with suppress(FileNotFoundError):
                written = read_on(path, mark)
                if written is None or written[1].end - mark.end >= _BLOCK:
                    return None
                lines, self._marks[path] = written
                new += rows_of(path, said_in(lines[-MOST:]))
                is_any_end = is_any_end or any(_IS_END in line for _, line in lines)
                is_whole = is_whole and len(lines) <= MOST
        if not new and not is_any_end:
            return last
        number, dropped = last.number + 1, last.dropped
        new.sort(key=lambda row: row.ended)
        rows = [*last.rows, *((number, row) for row in new)]
        if is_any_end or not is_whole:
            # After the end of a transaction, pages show its earlier calls in another way.
            dropped = number
        elif len(rows) > MOST:
            dropped = max(dropped, rows[-MOST - 1][0])
        return Look(last.begun, number, rows[-MOST:], dropped)

"""An index of the calls in record files, followed as they are written."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock
from typing import Final

from toolstile_hookspecs import Status
from toolstile_plugins.console.pages import id_of
from toolstile_plugins.record.schema import RecordedCall, RecordError, read_line
from toolstile_plugins.record.selection import records_in

MOST: Final = 20_000
"""The calls that the index holds; those before can be listed with `toolstile record`."""
_GIST: Final = 200


@dataclass(frozen=True, slots=True)
class Row:
    """A call in the index.

    Args:
        path: The record.
        start: Where its line begins.
        call_id: The id of the call.
        tool: The tool.
        status: The outcome.
        at: The time.
        seconds: How long it took.
        session: The id of the session.
        principal: The id of the principal, "" where there is none.
        parent: The id of the call that made it.
        gist: The first line that the model read.
    """

    path: Path
    start: int
    call_id: str
    tool: str
    status: Status
    at: datetime
    seconds: float
    session: str
    principal: str
    parent: str | None
    gist: str

    @property
    def name(self) -> str:
        """Its name in addresses."""
        return f"{id_of(str(self.path))}-{self.start}"

    def wire(self) -> dict[str, object]:
        """Return it as JSON data."""
        fields = {**asdict(self), "name": self.name, "at": self.at.isoformat()}
        return {**fields, "path": str(self.path)}


@dataclass(frozen=True, slots=True)
class Filter:
    """The calls that a person asks for; what is empty leaves nothing out.

    Args:
        tool: A glob of tools.
        outcome: The outcome.
        session: The id of a session.
        principal: The id of a principal.
        since: The earliest time.
        until: The time before which they were made.
    """

    tool: str = ""
    outcome: str = ""
    session: str = ""
    principal: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def has(self, row: Row) -> bool:
        """Tell whether a call is one of them."""
        return (
            fnmatchcase(row.tool, self.tool or "*")
            and self.outcome in {"", row.status.value}
            and self.session in {"", row.session}
            and self.principal in {"", row.principal}
            and (self.since is None or row.at >= self.since)
            and (self.until is None or row.at < self.until)
        )


class CallIndex:
    """The newest calls of records.

    Args:
        places: Records, and folders of records.
        most: How many calls it holds.
    """

    def __init__(self, places: Sequence[Path], most: int = MOST) -> None:
        self.places = places
        self._rows: deque[Row] = deque(maxlen=most)
        self._read: dict[Path, tuple[int, int]] = {}
        self._lock = Lock()

    def version(self) -> str:
        """Return a version that changes as calls are recorded."""
        stats = [(str(path), path.stat()) for path in self._paths()]
        return id_of(str([(name, stat.st_ino, stat.st_size) for name, stat in stats]))

    def rows(self) -> list[Row]:
        """Return the calls that are recorded by now, the newest first."""
        with self._lock:
            for path in self._paths():
                # One that was removed since keeps the rows it had.
                with suppress(OSError):
                    self._follow(path)
            return sorted(self._rows, key=lambda row: row.at, reverse=True)

    def find(self, name: str) -> tuple[Row, RecordedCall] | None:
        """Return a call whole, None where it is not in the index or not in its record any more."""
        for row in self.rows():
            if row.name == name:
                with suppress(OSError, ValueError), row.path.open("rb") as file:
                    file.seek(row.start)
                    call = read_line(file.readline().rstrip(b"\n"))
                    if isinstance(call, RecordedCall) and call.id == row.call_id:
                        return row, call
        return None

    def _paths(self) -> Iterator[Path]:
        for place in self.places:
            # There is none until the first call.
            with suppress(RecordError):
                yield from records_in(place)

    def _follow(self, path: Path) -> None:
        """Take in what was written since the last look."""
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            inode, position = self._read.get(path, (stat.st_ino, 0))
            if inode != stat.st_ino or position > stat.st_size:
                # Another record lies there now.
                kept = [row for row in self._rows if row.path != path]
                self._rows.clear()
                self._rows.extend(kept)
                position = 0
            file.seek(position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                # `toolstile record verify` tells of lines that are none.
                with suppress(ValueError):
                    said = read_line(line.rstrip(b"\n"))
                    if isinstance(said, RecordedCall):
                        self._rows.append(_row(path, position, said))
                position += len(line)
            self._read[path] = stat.st_ino, position


def _row(path: Path, start: int, call: RecordedCall) -> Row:
    gist = call.read.strip().partition("\n")[0][:_GIST]
    user = call.user or ""
    took = call.seconds
    return Row(
        path,
        start,
        call.id,
        call.tool,
        call.status,
        call.at,
        took,
        call.session,
        user,
        call.parent,
        gist,
    )

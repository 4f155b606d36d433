"""The calls in record files, read on from where a reader was."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from toolstile_hookspecs import Status
from toolstile_plugins.console.pages import id_of
from toolstile_plugins.record.schema import plain_line

_HEAD: Final = 256
"""The bytes at the beginning of a record that tell it from all others: they hold its time."""
_GIST: Final = 200


@dataclass(frozen=True, slots=True)
class Row:
    """A call in a list.

    Args:
        path: The record.
        start: Where its line begins.
        call_id: The id of the call.
        tool: The tool.
        status: The outcome.
        at: The time at which it began.
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

    @property
    def ended(self) -> datetime:
        """The time at which it ended."""
        return self.at + timedelta(seconds=self.seconds)

    def wire(self) -> dict[str, object]:
        """Return it as JSON data."""
        fields = {**asdict(self), "name": self.name, "at": self.at.isoformat()}
        return {**fields, "path": str(self.path)}


class Mark(NamedTuple):
    """The place in a record up to which it was read.

    Args:
        head: The beginning of the record, as far as it was there.
        end: Where the next line begins.
    """

    head: bytes = b""
    end: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """The lines that were written since a mark.

    Args:
        lines: The lines, each with where it begins.
        mark: The place behind them.
    """

    lines: list[tuple[int, bytes]]
    mark: Mark


def read_on(path: Path, mark: Mark, most: int) -> Written | None:
    """Return the lines behind a mark; None where another record lies there now.

    A last line that is not written to its end is left for later.

    Args:
        path: The record.
        mark: The place up to which it was read.
        most: The bytes after which no other line is begun.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if not head.startswith(mark.head) or os.fstat(file.fileno()).st_size < mark.end:
            return None
        end = file.seek(mark.end)
        lines: list[tuple[int, bytes]] = []
        for line in file.readlines(most):
            if line.endswith(b"\n"):
                lines.append((end, line))
                end += len(line)
        return Written(lines, Mark(head[:end], end))


def rows_of(path: Path, lines: Iterable[tuple[int, bytes]]) -> list[Row]:
    """Return the calls of which lines tell."""
    rows: list[Row] = []
    for start, line in lines:
        # `toolstile record verify` tells of lines that are none.
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            said = plain_line(line)
            if said["kind"] == "call":
                envelope = said["envelope"]
                read = said.get("text", envelope.get("error", envelope.get("data")))
                gist = read.strip().partition("\n")[0][:_GIST] if isinstance(read, str) else ""
                rows.append(
                    Row(
                        path,
                        start,
                        call_id=said["id"],
                        tool=envelope["tool"],
                        status=Status(said["status"]),
                        at=datetime.fromisoformat(said["at"]),
                        seconds=said["seconds"],
                        session=said["session"],
                        principal=said.get("user") or "",
                        parent=said.get("parent"),
                        gist=gist,
                    )
                )
    return rows

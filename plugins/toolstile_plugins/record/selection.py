"""Records of a folder, and the calls in them that somebody asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from toolstile_hookspecs import Status
from toolstile_plugins.record.reader import Numbered, Reader
from toolstile_plugins.record.schema import RecordedCall, RecordError


@dataclass(frozen=True, slots=True)
class Selection:
    """The calls that somebody asks for.

    Args:
        tools: Globs of tools' names, of which one must match; none matches any.
        outcomes: The outcomes, of which it must have one; none allows any.
        since: The earliest time at which they were made.
        until: The time before which they were made.

    Example:
        >>> Selection(tools=("read_*",)).is_all
        False
    """

    tools: tuple[str, ...] = ()
    outcomes: tuple[Status, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_all(self) -> bool:
        """True when it leaves nothing out."""
        return self == Selection()

    def has(self, call: RecordedCall) -> bool:
        """Tell whether a call is one of them."""
        names = {call.tool, call.asked_for}
        return (
            (not self.tools or any(fnmatchcase(own, glob) for own in names for glob in self.tools))
            and (not self.outcomes or call.status in self.outcomes)
            and (self.since is None or call.at >= self.since)
            and (self.until is None or call.at < self.until)
        )

    def of(self, reader: Reader) -> Iterator[Numbered]:
        """Yield those of a record."""
        return (entry for entry in reader if self.has(entry.call))


@dataclass(slots=True)
class Summary:
    """The contents of a record in a folder, as far as they were asked for.

    Args:
        path: The file.
        calls: The number of calls that were asked for.
        first: The time of the first of them.
        last: The time of the last.
        sessions: The sessions they ran in.
        tools: How many calls each tool has.
        outcomes: How many calls each outcome has.
        fault: Why it could not be read to its end, where it could not.
    """

    path: Path
    calls: int = 0
    first: datetime | None = None
    last: datetime | None = None
    sessions: set[str] = field(default_factory=set[str])
    tools: Counter[str] = field(default_factory=Counter[str])
    outcomes: Counter[Status] = field(default_factory=Counter[Status])
    fault: str | None = None

    def add(self, call: RecordedCall) -> None:
        """Count a call."""
        self.calls += 1
        self.first = call.at if self.first is None else min(self.first, call.at)
        self.last = call.at if self.last is None else max(self.last, call.at)
        self.sessions.add(call.session)
        self.tools[call.tool] += 1
        self.outcomes[call.status] += 1

    def wire(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "file": str(self.path),
            "calls": self.calls,
            "first": None if self.first is None else self.first.isoformat(),
            "last": None if self.last is None else self.last.isoformat(),
            "sessions": len(self.sessions),
            "tools": dict(self.tools),
            "outcomes": {status.value: count for status, count in self.outcomes.items()},
            "fault": self.fault,
        }


def records_in(place: Path) -> list[Path]:
    """Return the records in a folder, the oldest first; a file by itself.

    Raises:
        RecordError: The folder holds no record.
    """
    found = [place] if place.is_file() else sorted(place.glob("*.jsonl"))
    if not found:
        what = "holds no record (*.jsonl)" if place.exists() else "is not there"
        raise RecordError(f"{place} {what}. Name a folder of records, or a record.")
    return found


def summaries(place: Path, selection: Selection) -> Iterator[Summary]:
    """Yield a summary of each record that holds calls that are asked for, or cannot be read.

    Raises:
        RecordError: The folder holds no record.
    """
    for path in records_in(place):
        summary = Summary(path)
        try:
            for entry in selection.of(Reader(path)):
                summary.add(entry.call)
        except RecordError as error:
            summary.fault = str(error)
        if summary.calls or summary.fault is not None or selection.is_all:
            yield summary

"""Reads, selects and verifies the calls of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from toolstile_hookspecs import RequestTurn, Status
from toolstile_plugins.record.hash_chain import Chain, Damage, Fault
from toolstile_plugins.record.schema import (
    Begin,
    End,
    RecordedApproval,
    RecordedCall,
    RecordedCheck,
    RecordError,
    Said,
    read_line,
)


@dataclass(frozen=True, slots=True)
class Lost:
    """Calls that could not be recorded.

    Args:
        line: The line of the file before which they were made, from 1.
        calls: How many.
    """

    line: int
    calls: int


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of verifying every line of a record.

    Args:
        path: The file.
        lines: The number of its lines.
        calls: The number of its calls.
        last: The hash of its last line; noted elsewhere, it shows later whether lines are missing.
        ended: Whether the last run ended as it should. Otherwise its process was killed, or
            lines at the end are missing.
        faults: Its faults.
        lost: The calls that could not be written, as far as a later line tells.
    """

    path: Path
    lines: int
    calls: int
    last: str
    ended: bool
    faults: tuple[Fault, ...]
    lost: tuple[Lost, ...] = ()


@dataclass(frozen=True, slots=True)
class Numbered:
    """A call of a record, and the line of the file that tells of it.

    Args:
        line: The line, from 1.
        call: What it says.
    """

    line: int
    call: RecordedCall


class Reader:
    """Reads a record call by call, once.

    A last line that was not written to its end is left out.

    Attributes:
        torn: Whether its last line was not written to its end, as soon as all is read.
        lost: The calls that could not be recorded, as far as it is read.
        checks: The checks of agents' tasks, as far as it is read.
        approvals: The answers of people, grants and revocations by id, as far as it is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = False
        self.lost: list[Lost] = []
        self.checks: list[RecordedCheck] = []
        self.approvals: dict[str, RecordedApproval] = {}

    def __iter__(self) -> Iterator[Numbered]:
        """Yield each call.

        Raises:
            RecordError: It cannot be read, is not a record, or was changed up to there.
        """
        chain = Chain()
        requests: dict[str, tuple[RequestTurn, ...]] = {}
        for number, said in _said(self.path, chain):
            self._refuse_faults(chain)
            self.lost += _lost_before(number, said)
            if isinstance(said, Begin):
                requests.clear()
            elif isinstance(said, RecordedCheck):
                self.checks.append(said)
            elif isinstance(said, RecordedApproval):
                self.approvals.setdefault(said.id, said)
            elif isinstance(said, RecordedCall):
                yield Numbered(number, with_request(said, requests))
        _refuse_others(self.path, chain)
        self._refuse_faults(chain)
        self.torn = bool(chain.faults)

    def _refuse_faults(self, chain: Chain) -> None:
        for fault in chain.faults:
            if fault.damage is not Damage.TORN:
                raise RecordError(
                    f"{self.path}, line {fault.line}: it {fault.text}. See `toolstile record "
                    "verify`; what follows cannot be relied on."
                )


@dataclass(frozen=True)
class Recording:
    """A record that was read, to replay or to look at.

    Args:
        path: The file.
        calls: Its calls, in order.
        torn: Whether its last line was not written to its end; nothing of that is here.
        lost: The calls that could not be recorded.

    Example:
        >>> recording = Recording.load(Path("calls.jsonl"))  # doctest: +SKIP
    """

    path: Path
    calls: tuple[Numbered, ...]
    torn: bool = False
    lost: tuple[Lost, ...] = ()

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read a record, but for a last line that was not written to its end.

        Raises:
            RecordError: It cannot be read, is not a record, or was changed.
        """
        reader = Reader(Path(path))
        calls = tuple(reader)
        return cls(reader.path, calls, reader.torn, tuple(reader.lost))

    @cached_property
    def sessions(self) -> Mapping[str, Sequence[Numbered]]:
        """The top-level calls by the session they ran in."""
        found: dict[str, list[Numbered]] = {}
        for entry in self.calls:
            if entry.call.parent is None:
                found.setdefault(entry.call.session, []).append(entry)
        return found


def verify(path: Path) -> Checked:
    """Look at every line of a record.

    Raises:
        RecordError: It cannot be read, or is not a record.
    """
    chain = Chain()
    calls, ended = 0, False
    lost: list[Lost] = []
    for number, said in _said(path, chain):
        calls += isinstance(said, RecordedCall)
        ended = isinstance(said, End)
        lost += _lost_before(number, said)
    _refuse_others(path, chain)
    ended = ended and not chain.faults
    faults = tuple(chain.faults)
    return Checked(path, chain.lines, calls, chain.last, ended, faults, tuple(lost))


def _lost_before(number: int, said: Said) -> list[Lost]:
    lost = said.lost if isinstance(said, RecordedCall | End) else 0
    return [Lost(number, lost)] if lost else []


def _refuse_others(path: Path, chain: Chain) -> None:
    """Raise `RecordError` without any line of a record, even a damaged one."""
    if not chain.lines:
        raise RecordError(
            f"{path} is empty: nothing was recorded, or all of it was removed. Record calls with "
            "`--record`."
        )
    if not chain.is_one:
        raise RecordError(
            f"{path} is not a record: it has no line of one. Name a file that `--record` has "
            f"written; calls that are still to be made are made with `toolstile run {path}`."
        )


def _said(path: Path, chain: Chain) -> Iterator[tuple[int, Said]]:
    try:
        with path.open("rb") as file:
            for number, text in chain.follow(file):
                try:
                    yield number, read_line(text)
                except ValueError as error:
                    reason = str(error).rstrip(".")
                    raise RecordError(
                        f"{path}, line {number}: it is of no record that this Toolstile can read "
                        f"({reason}). Read it with the Toolstile that wrote it."
                    ) from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}. Name a record.") from error


def with_request(
    call: RecordedCall, last: MutableMapping[str, tuple[RequestTurn, ...]]
) -> RecordedCall:
    """Return a call with the request that it saw, which may stand in a line before it."""
    if call.request is not None:
        last[call.session] = call.request
        return call
    request = last.get(call.session)
    return call if request is None else call.model_copy(update={"request": request})


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

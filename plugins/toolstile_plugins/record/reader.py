"""Reads, selects and verifies the calls of records."""

from __future__ import annotations

import glob
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from toolstile_hookspecs import RequestTurn, Status
from toolstile_plugins.cli_support import unseen
from toolstile_plugins.record.file import Chain, Damage, Fault
from toolstile_plugins.record.schema import (
    Begin,
    End,
    RecordedApproval,
    RecordedCall,
    RecordedCheck,
    RecordedTransaction,
    RecordError,
    Said,
    read_line,
)


@dataclass(frozen=True, slots=True)
class Lost:
    """A number of calls that could not be recorded, before a line of the file (from 1)."""

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
        ended: Whether the last run ended. If not, its process was killed, or lines are missing.
        faults: Its faults.
        lost: The calls that could not be written, if a later line counts them.
    """

    path: Path
    lines: int
    calls: int
    last: str
    ended: bool
    faults: tuple[Fault, ...]
    lost: tuple[Lost, ...] = ()


class Reader:
    """Reads a record call by call, once, without an incomplete last line (then it is `torn`).

    `lost`, `checks`, `transactions` and `approvals` (by id) grow while it is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = False
        self.lost: list[Lost] = []
        self.checks: list[RecordedCheck] = []
        self.approvals: dict[str, RecordedApproval] = {}
        self.transactions: list[RecordedTransaction] = []

    def __iter__(self) -> Iterator[RecordedCall]:
        """Yield each call; raise `RecordError` at the first line that cannot be relied on."""
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
            elif isinstance(said, RecordedTransaction):
                self.transactions.append(said)
            elif isinstance(said, RecordedCall):
                call, request = said, requests.get(said.session)
                if call.request is not None:
                    requests[call.session] = call.request
                elif request is not None:
                    # An earlier line has it.
                    call = call.model_copy(update={"request": request})
                yield call
        _refuse_others(self.path, chain)
        self._refuse_faults(chain)
        self.torn = bool(chain.faults)

    def _refuse_faults(self, chain: Chain) -> None:
        for fault in chain.faults:
            if fault.damage is not Damage.TORN:
                raise RecordError(
                    f"{self.path}, line {fault.line}: it {fault.text}. See `toolstile record "
                    "verify`; the lines after it cannot be relied on."
                )


@dataclass(frozen=True)
class Recording:
    """A record that was read, to replay or to inspect.

    Args:
        path: The file.
        calls: Its calls, in order.
        torn: Whether its last line is incomplete; it is not among the calls.
        lost: The calls that could not be recorded.
        transactions: The ends of its transactions, in order.

    Example:
        >>> recording = Recording.load(Path("calls.jsonl"))  # doctest: +SKIP
    """

    path: Path
    calls: tuple[RecordedCall, ...]
    torn: bool = False
    lost: tuple[Lost, ...] = ()
    transactions: tuple[RecordedTransaction, ...] = ()

    @classmethod
    def load(cls, path: str | Path, newest: int | None = None) -> Recording:
        """Read a record, or its newest calls, without an incomplete last line.

        Raises:
            RecordError: It cannot be read, is not a record, or was changed.
        """
        reader = Reader(Path(path))
        calls = tuple(deque(reader, newest))
        ends = tuple(reader.transactions)
        return cls(reader.path, calls, reader.torn, tuple(reader.lost), ends)


def verify(path: Path, note: Callable[[float, float], None] = unseen) -> Checked:
    """Check every line of a record; `note` gets the bytes read until now, and all of them.

    Raises:
        RecordError: It cannot be read, or is not a record.
    """
    chain, lost = Chain(), list[Lost]()
    calls, ended, total = 0, False, size_of(path)
    for number, said in _said(path, chain):
        note(chain.size, total)
        calls += isinstance(said, RecordedCall)
        ended = isinstance(said, End)
        lost += _lost_before(number, said)
    _refuse_others(path, chain)
    faults = tuple(chain.faults)
    return Checked(path, chain.lines, calls, chain.last, ended and not faults, faults, tuple(lost))


def size_of(path: Path) -> int:
    """Return the bytes of a record, 0 if it cannot be read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _lost_before(number: int, said: Said) -> list[Lost]:
    lost = said.lost if isinstance(said, RecordedCall | End) else 0
    return [Lost(number, lost)] if lost else []


def _refuse_others(path: Path, chain: Chain) -> None:
    """Raise `RecordError` if a file has no line of a record, not even a damaged one."""
    if not chain.lines:
        raise RecordError(
            f"{path} is empty: nothing was recorded, or all of it was removed. Record calls with "
            "`--record`."
        )
    if not chain.is_one:
        raise RecordError(
            f"{path} is not a record: no line of it is part of one. Name a file that `--record` "
            f"wrote; to make new calls, use `toolstile run {path}`."
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
                        f"{path}, line {number}: this Toolstile cannot read it "
                        f"({reason}). Read it with the Toolstile that wrote it."
                    ) from None
    except OSError as error:
        place = path if isinstance(error, IsADirectoryError) else "FOLDER"
        told = f"Name a record, from `toolstile record list {place}`."
        raise RecordError(f"{path} cannot be read: {error.strerror}. {told}") from error


@dataclass(frozen=True, slots=True)
class Selection:
    """The calls to show.

    Example:
        >>> Selection(tools=("read_*",)).is_all
        False
    """

    # Globs of tool names; a call matches one of them. Empty for all tools.
    tools: tuple[str, ...] = ()
    # The outcomes. Empty for all outcomes.
    outcomes: tuple[Status, ...] = ()
    since: datetime | None = None  # the earliest time of a call
    until: datetime | None = None  # the time before which calls were made

    @property
    def is_all(self) -> bool:
        """True if all calls are selected."""
        return self == Selection()

    def has(self, call: RecordedCall) -> bool:
        """Tell whether a call is selected."""
        names = {call.tool, call.asked_for}
        return (
            (not self.tools or any(fnmatchcase(own, glob) for own in names for glob in self.tools))
            and (not self.outcomes or call.status in self.outcomes)
            and (self.since is None or call.at >= self.since)
            and (self.until is None or call.at < self.until)
        )

    def of(self, reader: Reader) -> Iterator[RecordedCall]:
        """Yield the selected calls of a record."""
        return (entry for entry in reader if self.has(entry))


@dataclass(slots=True)
class Summary:
    """The selected calls of a record in a folder, counted."""

    path: Path
    calls: int = 0
    first: datetime | None = None  # the time of the first call
    last: datetime | None = None
    sessions: set[str] = field(default_factory=set[str])
    tools: Counter[str] = field(default_factory=Counter[str])  # the number of calls of each tool
    outcomes: Counter[Status] = field(default_factory=Counter[Status])
    fault: str | None = None  # why it could not be read to its end

    def add(self, call: RecordedCall) -> None:
        """Count a call."""
        self.calls += 1
        self.first = call.at if self.first is None else min(self.first, call.at)
        self.last = call.at if self.last is None else max(self.last, call.at)
        self.sessions.add(call.session)
        self.tools[call.tool] += 1
        self.outcomes[call.status] += 1

    def wire(self) -> dict[str, Any]:
        """Return the summary as a JSON object."""
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
    """Return the records in a folder, oldest first; or a file and the runs recorded beside it.

    Raises:
        RecordError: There is no record.
    """
    beside = f"{glob.escape(place.stem)}-[0-9]*T*-????????.jsonl"
    found = sorted(place.glob("*.jsonl"))
    if place.is_file():
        found = [place, *sorted(place.parent.glob(beside))]
    if not found:
        what = "holds no record (*.jsonl)" if place.exists() else "does not exist"
        raise RecordError(f"{place} {what}. Name a folder of records, or a record.")
    return found


def summaries(place: Path, selection: Selection) -> Iterator[Summary]:
    """Yield a summary of each record that holds selected calls, or cannot be read."""
    for path in records_in(place):
        summary = Summary(path)
        try:
            for entry in selection.of(Reader(path)):
                summary.add(entry)
        except RecordError as error:
            summary.fault = str(error)
        if summary.calls or summary.fault is not None or selection.is_all:
            yield summary

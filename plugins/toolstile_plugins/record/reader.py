"""Records, read back and verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from toolstile_hookspecs import RequestTurn
from toolstile_plugins.record.hash_chain import Chain, Damage, Fault
from toolstile_plugins.record.requests import with_request
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

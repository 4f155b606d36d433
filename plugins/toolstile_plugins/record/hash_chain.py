"""A chain of lines: each has the hash of the line before, and its own.

A line is a JSON object on one line. `n` counts from 1, and `prev` is the hash of the line before.
`hash`, at its end, is the SHA-256 of all text before it. So a line that is changed, removed, moved
or inserted shows in the next line.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple

START: Final = "0" * 64
"""The hash before the first line."""
BEGINNING: Final = b'{"n":'
"""The first characters of every line."""

_LINE: Final = re.compile(
    rb'(?P<sealed>\{"n":(?P<n>[1-9][0-9]{0,17}),"prev":"(?P<prev>[0-9a-f]{64})",.*)'
    rb',"hash":"(?P<hash>[0-9a-f]{64})"\}',
    re.DOTALL,
)


class Link(NamedTuple):
    """Where a line stands in the chain."""

    n: int
    prev: str
    hash: str


class Damage(StrEnum):
    """The damage of a line."""

    TORN = "torn"
    """It ends in the middle: the process or the machine stopped while it was written."""
    CHANGED = "changed"
    """The line differs from the written line."""
    MISSING = "missing"
    """Lines that stood before it are gone."""
    MISPLACED = "misplaced"
    """It was put in, repeated or moved."""
    REPLACED = "replaced"
    """The line was written after another line than the one before it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a file: the line at which it shows (from 1), its kind, and a text for people."""

    line: int
    damage: Damage
    text: str


def seal(n: int, prev: str, content: str) -> tuple[bytes, str]:
    """Return a line with its newline, and its hash; the content is a JSON object with a field."""
    sealed = f'{{"n":{n},"prev":"{prev}",{content[1:-1]}'.encode()
    own = sha256(sealed).hexdigest()
    return b'%b,"hash":"%b"}\n' % (sealed, own.encode()), own


def read_link(line: bytes) -> Link | None:
    """Return the place of a line (without its newline) in the chain, None if it was changed."""
    found = _LINE.fullmatch(line)
    if found is None or sha256(found["sealed"]).hexdigest() != found["hash"].decode():
        return None
    return Link(int(found["n"]), found["prev"].decode(), found["hash"].decode())


class Chain:
    """Follows a chain from line to line, and notes its faults and the last intact line's hash.

    If no line begins like a line of a chain (`is_one`), the file is another kind of file.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.lines = 0
        self.last = START
        self.is_one = False
        self._expected = 1
        self._known = True

    def follow(self, lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the number and text of each intact line."""
        raw = b""
        for given in lines:
            self.lines += 1
            raw = given.removeprefix(BOM_UTF8) if self.lines == 1 else given
            # A torn line may be shorter than the beginning of each line.
            self.is_one = self.is_one or raw.startswith(BEGINNING) or BEGINNING.startswith(raw)
            # The last line may lack only its newline.
            line = raw.removesuffix(b"\n")
            if (link := read_link(line)) is not None:
                self._place(link)
                yield self.lines, line
            elif not raw.endswith(b"\n"):
                self._note(Damage.TORN, f"ends in the middle, after {len(raw):,} bytes")
            else:
                is_crlf = raw.endswith(b"\r\n") and read_link(raw[:-2]) is not None
                how = (
                    "an editor, or Git, made its end CR LF"
                    if is_crlf
                    else "its hash does not fit it"
                )
                self._note(Damage.CHANGED, f"differs from the written line: {how}")
                self._expected += 1
                self._known = False
        if b"\0" in raw and self.faults and self.faults[-1].line == self.lines:
            # After a loss of power the system may show NULs for bytes that it has not written.
            self.faults.pop()
            self._note(Damage.TORN, f"ends in the middle, after {raw.index(0):,} bytes")

    def _place(self, link: Link) -> None:
        if link.n < self._expected:
            self._note(
                Damage.MISPLACED,
                f"was put in or moved: it is number {link.n:,} of the record, and number "
                f"{self._expected:,} would stand here",
            )
            return
        if link.n > self._expected:
            gone = link.n - self._expected
            missing = f"number {self._expected:,}"
            if gone > 1:
                missing = f"numbers {self._expected:,} to {link.n - 1:,}"
            verb = "is" if gone == 1 else "are"
            self._note(Damage.MISSING, f"comes after a gap: {missing} of the record {verb} missing")
        elif self._known and link.prev != self.last:
            self._note(
                Damage.REPLACED,
                "was written after another line than the one before it, which was replaced",
            )
        self._expected, self.last, self._known = link.n + 1, link.hash, True

    def _note(self, damage: Damage, text: str) -> None:
        self.faults.append(Fault(self.lines, damage, text))

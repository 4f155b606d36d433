"""The content of a console block: commands and their output."""

from __future__ import annotations

import re
from dataclasses import dataclass

PROMPT = "$ "

#: What differs from one run to the next.
_DIFFERENT = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|µs)\b"), "DURATION"),
)


@dataclass(frozen=True)
class Command:
    """A command of a block.

    Args:
        line: What is typed; several lines where they end with a backslash.
        shown: What it prints, as far as that is shown.
    """

    line: str
    shown: str


def commands(text: str) -> list[Command]:
    """Return the commands of a block; without a prompt anywhere, each line is one."""
    lines = text.strip("\n").splitlines()
    if not any(line.startswith(PROMPT) for line in lines):
        lines = [f"{PROMPT}{line}" for line in lines]
    found: list[Command] = []
    continued = False
    for line in lines:
        if line.startswith(PROMPT):
            found.append(Command(line.removeprefix(PROMPT), ""))
        elif continued:
            found[-1] = Command(f"{found[-1].line}\n{line}", "")
        elif found:
            found[-1] = Command(found[-1].line, f"{found[-1].shown}{line}\n")
        else:
            raise ValueError(f"{line!r} stands before the first command")
        continued = line.endswith("\\")
    return found


def fits(shown: str, printed: str) -> bool:
    """Tell whether what was printed is what is shown, but for what differs between runs."""
    return bool(re.fullmatch(_pattern(shown), even(printed), re.DOTALL))


def begins(shown: str, printed: str) -> bool:
    """Tell whether what is shown has been printed by now."""
    return bool(re.match(_pattern(shown), even(printed), re.DOTALL))


def even(text: str) -> str:
    """Return text without what differs between runs, its words apart by one space."""
    for what, name in _DIFFERENT:
        text = what.sub(name, text)
    return " ".join(text.split())


def _pattern(shown: str) -> str:
    return r"\s*" + re.escape(even(shown)).replace(r"\.\.\.", ".*")

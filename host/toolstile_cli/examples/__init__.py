"""The examples that come with Toolstile: their names, and how they are asked for.

The help needs no more than these, so nothing else is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence.

    Example:
        >>> listed(("run", "call", "tools"))
        'run, call and tools'
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


SESSIONS: Final = {"orders": "session.jsonl", "workspace": "workspace.jsonl"}
"""The session of each example, by its name; the first is run unless one is named."""

ASKED_FOR: Final = {"workspace": ("planning", "vfs")}
"""The installed plugins whose tools an example asks for, by its name."""

THE_EXAMPLES: Final = f"The examples are {listed(tuple(SESSIONS))}."
OPTION: Final = "--example"


def named_examples(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a name for each `--example`, as it may be left out.

    Example:
        >>> named_examples(["run", "--example", "calls.jsonl"])
        ['run', '--example=orders', 'calls.jsonl']
    """
    default = next(iter(SESSIONS))
    named: list[str] = []
    for argument in arguments:
        if named and named[-1] == f"{OPTION}={default}" and argument in SESSIONS:
            named[-1] = f"{OPTION}={argument}"
        else:
            named.append(f"{OPTION}={default}" if argument == OPTION else argument)
    return named

"""Where the examples that come with Toolstile are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from toolstile.cli.text import listed

SESSIONS: Final = {"orders": "session.jsonl", "workspace": "workspace.jsonl"}
"""The session of each example, by its name; the first is run unless one is named."""

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


def example_plugin(name: str) -> Path:
    """Return an example's plugin, a single file."""
    return _folder() / f"{name}.py"


def named_plugins(options: argparse.Namespace) -> list[Path]:
    """Return the files of the plugins that options name, that of an example included."""
    example = [example_plugin(options.example)] if options.example else []
    return [*options.plugin, *example]


def example_session(name: str) -> tuple[str, str]:
    """Return the name and the text of an example's session."""
    session = _folder() / SESSIONS[name]
    return session.name, session.read_text(encoding="utf-8")


def _folder() -> Path:
    from importlib.resources import files  # no other command has to wait for it

    return Path(str(files("toolstile"))) / "examples"

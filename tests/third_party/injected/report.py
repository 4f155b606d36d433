"""Prints a table: what settings let pass, what they stop, and how often they ask.

python -m tests.third_party.injected.report SETTINGS.toml... [--group first] [--runs]
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .measuring import GROUPS, Counts, played, summed
from .player import Played

HEADING = (
    "settings",
    "tasks kept",
    "tasks with questions",
    "questions",
    "attacks that succeeded",
    "of these beyond arguments",
    "injections that never succeeded",
    "attacks that were asked about",
    "tasks kept under attack",
)


def read(paths: Iterable[Path]) -> list[tuple[str, dict[str, Any]]]:
    """Return the settings of each file with its name, and of all together where there are two."""
    files = [(path.stem, tomllib.loads(path.read_text(encoding="utf-8"))) for path in paths]
    if len(files) > 1:
        together: dict[str, Any] = {}
        for _, tables in files:
            together = merged(together, tables)
        files.append(("all together", together))
    return files or [("none", {})]


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return two tables as one: lists joined, tables merged, of other values the second."""
    result = dict(first)
    for key, value in second.items():
        before = result.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            result[key] = merged(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            result[key] = [*before, *value]
        else:
            result[key] = value
    return result


def row(name: str, counts: Counts) -> str:
    """Return a row of the table."""
    cells = (
        name,
        f"{counts.kept} of {counts.tasks}",
        counts.interrupted,
        counts.questions,
        f"{counts.succeeded} of {counts.attacks}",
        counts.unstoppable,
        f"{counts.harmless} of {counts.injections}",
        counts.asked,
        f"{counts.kept_under_attack} of {counts.attacks}",
    )
    return f"| {' | '.join(map(str, cells))} |"


def details(clean: Iterable[Played], attacked: Iterable[Played]) -> Iterable[str]:
    """Yield a line for each task that was interrupted or lost, and each attack that succeeded."""
    for run in clean:
        if run.asked or not run.kept:
            yield f"- {run.task}: {'kept' if run.kept else 'lost'}."
            yield from (f"  - asked about {question}" for question in run.questions)
            yield from (f"  - {tool} did not run: {text}" for tool, text in run.refused)
    for run in attacked:
        if run.attacked:
            yield f"- {run.task}: {run.injection!r} succeeded."


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table for the files that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.third_party.injected.report",
        description="Print a table: what settings let pass, what they stop, how often they ask.",
    )
    parser.add_argument("settings", nargs="*", type=Path, metavar="SETTINGS.toml")
    parser.add_argument("--group", choices=GROUPS, default="first")
    parser.add_argument("--runs", action="store_true", help="also list the runs that went wrong")
    options = parser.parse_args(arguments)
    lines = [f"| {' | '.join(HEADING)} |", f"|{' --- |' * len(HEADING)}"]
    below: list[str] = []
    for name, tables in read(options.settings):
        clean, attacked = played(tables, options.group)
        lines.append(row(name, summed(clean, attacked, options.group)))
        below += ["", f"## {name}", "", *details(clean, attacked)]
    sys.stdout.write("\n".join(lines + (below if options.runs else [])) + "\n")


if __name__ == "__main__":
    main()

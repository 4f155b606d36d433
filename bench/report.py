"""The figures, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from measuring import Row

HEADS = ("case", "min us", "median us", "figure", "limit", "goal", "")
DECIMALS = {"x": 2, "us": 1, "ms": 2, "B": 0, "MB": 2, "a second": 0}


def machine() -> str:
    """Return what the figures depend on, without saying whose machine it is."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {sys.platform} {platform.machine()}, {os.cpu_count()} CPUs"


def as_table(rows: Iterable[Row], *, judged: bool) -> str:
    """Return a Markdown table that is also easily read as it is."""
    return table([HEADS, *(_cells(row, judged=judged) for row in rows)])


def table(lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first line is its head, and its inner columns are numbers."""
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    rule = ["-" * widths[0], *(f"{'-' * (width - 1)}:" for width in widths[1:-1]), "-" * widths[-1]]
    shown = [_line(lines[0], widths), f"| {' | '.join(rule)} |"]
    return "\n".join([*shown, *(_line(line, widths) for line in lines[1:])])


def as_json(rows: Iterable[Row], *, judged: bool) -> str:
    """Return the rows as JSON, times in seconds."""
    written = [{**asdict(row), "over": row.over if judged else None} for row in rows]
    return json.dumps({"machine": machine(), "rows": written}, indent=2) + "\n"


def _cells(row: Row, *, judged: bool) -> Sequence[str]:
    verdict = "over" if row.over else "ok"
    return (
        row.case,
        _microseconds(row.minimum),
        _microseconds(row.median),
        "" if row.figure is None else _figure(f"{row.figure:,.{DECIMALS[row.unit]}f}", row.unit),
        "" if row.limit is None else _figure(f"{row.limit:g}", row.unit),
        "" if row.goal is None else _figure(f"{row.goal:g}", row.unit),
        verdict if judged and row.limit is not None else "",
    )


def _figure(number: str, unit: str) -> str:
    return f"{number}x" if unit == "x" else f"{number} {unit}"


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:,.1f}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    numbers = [cell.rjust(width) for cell, width in zip(cells[1:-1], widths[1:-1], strict=True)]
    return f"| {' | '.join([first, *numbers, cells[-1].ljust(widths[-1])])} |"

"""The findings, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from findings import Findings, Series
from report import machine

ABSENT: Final = "-"
CALLS: Final[tuple[tuple[str, str], ...]] = (
    ("add", "async"),
    ("add", "sync"),
    ("create_order", "async"),
    ("create_order", "sync"),
)


def report(found: Sequence[Findings], day: str) -> str:
    """Return everything, as the sections of a page."""
    present = [findings for findings in found if findings.absent is None]
    parts = [
        f"Measured on {day}: {machine()}.",
        _versions(present),
        "### Policies, rollback and events on the way",
        _calls(present, governs=True),
        "### Others: most validate and call",
        _calls(present, governs=False),
        "### What each way includes",
        _ways(present),
        "### Rollback, by the number of files",
        _rollback(present),
        "### Odd arguments",
        _arguments(present),
        "### A tool that never returns",
        _blocking(present),
    ]
    missing = _missing(found)
    if missing:
        parts += ["### What could not be found out", missing]
    return "\n\n".join(parts) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """Return a table, whose last columns are numbers."""
    lines = [heads, *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(heads))]
    words = len(heads) - numbers
    rule = [
        "-" * width if index < words else f"{'-' * (width - 1)}:"
        for index, width in enumerate(widths)
    ]

    def shown(line: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if index < words else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return f"| {' | '.join(cells)} |"

    return "\n".join([shown(heads), f"| {' | '.join(rule)} |", *map(shown, lines[1:])])


def _versions(found: Sequence[Findings]) -> str:
    versions = [
        f"{name} {version}"
        for findings in found
        for name, version in findings.described["versions"].items()
    ]
    return f"Versions: {', '.join(versions)}."


def _calls(found: Sequence[Findings], *, governs: bool) -> str:
    heads = ["peer", "way", *(f"`{tool}`, {handler}" for tool, handler in CALLS), "long session"]
    rows = [
        [
            findings.peer.name,
            way["name"],
            *(_ratio(findings.calls.get((index, tool, handler))) for tool, handler in CALLS),
            _growth(findings, index),
        ]
        for findings in found
        for index, way in enumerate(findings.ways)
        if way["governs"] is governs
    ]
    return table(heads, rows, numbers=5)


def _ratio(series: Series | None) -> str:
    if series is None:
        return ABSENT
    if not series.subjects:
        return "failed"
    return f"{_figure(series.ratio)} ({_figure(series.fastest)})"


def _figure(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"


def _growth(findings: Findings, way: int) -> str:
    growth = findings.growth.get(way)
    if growth is None:
        return ABSENT
    if not growth.ratios:
        return "failed"
    return f"{growth.ratio:.1f} at {growth.calls:,}"


def _ways(found: Sequence[Findings]) -> str:
    rows = [
        [findings.peer.name, way["name"], way["includes"]]
        for findings in found
        for way in findings.ways
    ]
    return table(["peer", "way", "what happens to a call"], rows)


def _rollback(found: Sequence[Findings]) -> str:
    sizes = sorted({files for findings in found for _, files in findings.put_back})
    heads = ["peer", "files", *(f"{files:,}" for files in sizes)]
    rows = [
        [
            findings.peer.name,
            f"in {'memory' if kept == 'memory' else 'a directory'}",
            *(_put_back(findings.put_back[kept, files]) for files in sizes),
        ]
        for findings in found
        for kept in dict.fromkeys(kept for kept, _ in findings.put_back)
    ]
    return table(heads, rows, numbers=len(sizes))


def _put_back(series: Series) -> str:
    if not series.subjects:
        return "failed"
    return f"{series.seconds * 1e6:,.0f} us ({_figure(series.ratio)})"


def _arguments(found: Sequence[Findings]) -> str:
    rows = [
        [
            findings.peer.name,
            _unknown(findings.watched["unknown"]),
            _text_for_a_number(findings.watched["text"]),
        ]
        for findings in found
    ]
    return table(["peer", "an argument that it does not know", '`"17"` for an int'], rows)


def _unknown(seen: dict[str, Any]) -> str:
    if seen["ran_with"] is not None:
        return "dropped, the tool ran"
    refused = _refusal(seen)
    return refused if "comment" in seen["answer"] else f"{refused}, without naming it"


def _text_for_a_number(seen: dict[str, Any]) -> str:
    if seen["ran_with"] is None:
        return _refusal(seen)
    reached = seen["ran_with"]["a"]
    return "made a number" if reached == 17 else f"reached the tool as text, `{reached!r}`"


def _refusal(seen: dict[str, Any]) -> str:
    return "refused by an exception" if seen["raised"] else "refused"


def _blocking(found: Sequence[Findings]) -> str:
    rows = [
        [findings.peer.name, *_came_of_it(findings.blocked)]
        for findings in found
        if findings.blocked
    ]
    heads = ["peer", "way", "a timeout of 1 s", "the call", "the event loop", "the process"]
    return table(heads, rows)


def _came_of_it(seen: Mapping[str, Any]) -> Sequence[str]:
    waited = f"{seen['after']:.1f} s"
    if not seen["entered"]:
        call = "did not reach the tool"
    else:
        call = f"not back after {waited}" if seen["answer"] is None else f"back after {waited}"
    loop = {None: "there is none", True: "went on", False: "stood still"}[seen["loop_went_on"]]
    ended = "ended by itself" if seen["ended"] else "had to be killed"
    return (seen["way"], seen["timeout"], call, loop, ended)


def _missing(found: Sequence[Findings]) -> str:
    lines = [f"- {each.peer.name}: {each.absent}" for each in found if each.absent is not None]
    lines += [
        f"- {each.peer.name}, {name}: {why}" for each in found for name, why in each.faults.items()
    ]
    return "\n".join(lines)

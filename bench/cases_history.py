"""A session that has seen many calls: the hundred-thousandth costs what the hundredth did."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from time import perf_counter

from floors import FLOOR_OF_ADD
from full_host import executor_for, full_host
from measuring import Block, Effort, Row

from toolstile import Executor
from toolstile_hookspecs import ToolCall, ToolContext, tool

EARLY = 100
WINDOW = 1_000
BLOCK = 100
LIMIT = 1.2


@dataclass(frozen=True)
class Note:
    """One line of a session's notes."""

    number: int


@tool(timeout=None)
def write_note(text: str, *, context: ToolContext) -> int:
    """Write a note, and tell which number it has."""
    notes = context.session[Note]
    newest = notes.latest()
    notes.append(Note(newest.number + 1 if newest is not None else len(text)))
    return len(notes.all())


def measure_history(effort: Effort) -> list[Row]:
    """Measure early calls of one session and, when it is long, late ones."""
    with (
        full_host() as host,
        executor_for(host, write_note) as executor,
        FLOOR_OF_ADD.opened() as floor,
    ):
        _dispatch(executor, EARLY - 1)
        early = _window(executor, floor)
        _dispatch(executor, effort.calls - EARLY - 2 * WINDOW + 1)
        late = _window(executor, floor)
    # Seconds pass between the two windows, and with them the machine's clock changes: each is
    # seen in relation to the floor of its own moment.
    ratio = (statistics.median(late.calls) / late.floor) / (
        statistics.median(early.calls) / early.floor
    )
    first = f"write_note: calls {EARLY:,} to {EARLY + WINDOW - 1:,} of a session"
    last = f"write_note: calls {effort.calls - WINDOW + 1:,} to {effort.calls:,}"
    return [_row(first, early), _row(last, late, first, ratio)]


@dataclass(frozen=True)
class _Window:
    calls: list[float]
    floor: float


def _window(executor: Executor, floor: Block) -> _Window:
    calls: list[float] = []
    floors: list[float] = []
    for _ in range(WINDOW // BLOCK):
        floors.append(floor(1_000) / 1_000)
        calls += _dispatch(executor, BLOCK)
    return _Window(calls, statistics.median(floors))


def _dispatch(executor: Executor, times: int) -> list[float]:
    taken: list[float] = []
    for _ in range(times):
        started = perf_counter()
        outcome = executor.dispatch(ToolCall("write_note", '{"text": "a line"}'))
        taken.append(perf_counter() - started)
        assert outcome.success, outcome.text
    return taken


def _row(name: str, window: _Window, other: str | None = None, figure: float | None = None) -> Row:
    return Row(
        case=name,
        floor=other,
        minimum=min(window.calls),
        median=statistics.median(window.calls),
        figure=figure,
        limit=None if other is None else LIMIT,
    )

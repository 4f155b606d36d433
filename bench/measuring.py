"""Measurement: a case beside its floor, round by round, on a machine that is never still.

A clock that swings twofold makes times of different moments incomparable. So each case is
measured right after what it is compared with, all cases in a new order in each round, and the
ratio of a case is the median over the rounds of its own ratio in each.
"""

from __future__ import annotations

import asyncio
import gc
import math
import random
import statistics
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import repeat
from time import perf_counter

SAMPLE_SECONDS = 0.0005
"""The least seconds of a sample: long enough that reading the clock does not count."""

Block = Callable[[int], float]
"""Does something so many times, and returns the seconds that it took."""


@dataclass(frozen=True)
class Probe:
    """Something that can be measured.

    Args:
        name: What it is.
        opened: Makes it ready, for one round.
    """

    name: str
    opened: Callable[[], AbstractContextManager[Block]]


@dataclass(frozen=True)
class Case:
    """Something measured, what it is compared with, and how much dearer it may be.

    Args:
        subject: What is measured.
        floor: What it is compared with.
        limit: The highest ratio of the two that is right, None where any is.
        goal: The ratio that is aimed at.
    """

    subject: Probe
    floor: Probe
    limit: float | None = None
    goal: float | None = None


@dataclass(frozen=True)
class Effort:
    """The rounds and runs of a measurement.

    Args:
        rounds: How often each case is measured.
        seconds: How long, each time.
        calls: The length of a long session's history.
        entries: The length of a long slice.
        judged: Whether limits count: with little effort they say nothing.
    """

    rounds: int
    seconds: float
    calls: int
    entries: int
    judged: bool = True


THOROUGH = Effort(rounds=9, seconds=0.35, calls=100_000, entries=1_000_000)
QUICK = Effort(rounds=1, seconds=0.01, calls=2_100, entries=1_000, judged=False)


@dataclass(frozen=True)
class Row:
    """The figures of one case; times in seconds.

    Args:
        case: What was measured.
        floor: What it was compared with, None for a floor itself.
        minimum: The fastest sample.
        median: The median over all samples.
        figure: How many times dearer it is than its floor, or how much it takes, in its unit.
        limit: The highest figure that is right.
        goal: The figure that is aimed at.
        unit: Of the figure and its limit; "x" is a ratio.
    """

    case: str
    floor: str | None
    minimum: float | None
    median: float | None
    figure: float | None = None
    limit: float | None = None
    goal: float | None = None
    unit: str = "x"

    @property
    def over(self) -> bool:
        """True where it costs more than it may."""
        return self.limit is not None and self.figure is not None and self.figure > self.limit


@dataclass
class _Times:
    samples: list[float] = field(default_factory=list[float])
    ratios: list[float] = field(default_factory=list[float])


def timed(function: Callable[[], object], clock: Callable[[], float] = perf_counter) -> Block:
    """Return what measures a function."""

    def block(times: int) -> float:
        started = clock()
        for _ in repeat(None, times):
            function()
        return clock() - started

    return block


@contextmanager
def timed_on_loop(
    function: Callable[[], Awaitable[object]], clock: Callable[[], float] = perf_counter
) -> Iterator[Block]:
    """Give what measures an async function, awaited by one task on a loop that runs already."""

    async def measure(times: int) -> float:
        started = clock()
        for _ in repeat(None, times):
            await function()
        return clock() - started

    with asyncio.Runner() as runner:
        yield lambda times: runner.run(measure(times))


def compare(cases: Iterable[Case], effort: Effort) -> list[Row]:
    """Measure cases and their floors; returns the floors' rows, then the cases'.

    What is a case itself can be the floor of another one; it has one row, the case's.
    """
    listed = list(cases)
    times: dict[str, _Times] = {}
    for case in listed:
        times.setdefault(case.floor.name, _Times())
    for _ in range(effort.rounds):
        for case in random.sample(listed, len(listed)):
            floor = measure(case.floor, effort.seconds)
            subject = measure(case.subject, effort.seconds)
            times[case.floor.name].samples += floor
            of_case = times.setdefault(case.subject.name, _Times())
            of_case.samples += subject
            of_case.ratios.append(statistics.median(subject) / statistics.median(floor))
    subjects = {case.subject.name for case in listed}
    floors = dict.fromkeys(case.floor.name for case in listed)
    return [_row(name, times[name]) for name in floors if name not in subjects] + [
        _row(case.subject.name, times[case.subject.name], case) for case in listed
    ]


def on_top(
    case: str, row: Row, base: Row, limit: float | None = None, goal: float | None = None
) -> Row:
    """Return what one row costs more than another, in times of the floor they share."""
    assert row.floor == base.floor
    assert row.minimum is not None
    assert row.median is not None
    assert row.figure is not None
    assert base.minimum is not None
    assert base.median is not None
    assert base.figure is not None
    return Row(
        case=case,
        floor=row.floor,
        minimum=row.minimum - base.minimum,
        median=row.median - base.median,
        figure=row.figure - base.figure,
        limit=limit,
        goal=goal,
    )


def in_time(row: Row, unit: str, limit: float, goal: float) -> Row:
    """Return a row that is judged by its median time, "us" or "ms", in place of a ratio."""
    assert row.median is not None
    per_second = {"us": 1e6, "ms": 1e3}[unit]
    return replace(row, figure=row.median * per_second, limit=limit, goal=goal, unit=unit)


def measure(probe: Probe, seconds: float) -> list[float]:
    """Return samples of the time that one run of a probe takes, in seconds."""
    with probe.opened() as block:
        # What earlier cases left behind is not this one's to clear away.
        gc.collect()
        block(1)
        times = _calls_per_sample(block)
        samples: list[float] = []
        until = perf_counter() + seconds
        while not samples or perf_counter() < until:
            samples.append(block(times) / times)
        return samples


def _calls_per_sample(block: Block) -> int:
    once = min(block(1) for _ in range(3))
    return max(1, math.ceil(SAMPLE_SECONDS / max(once, 1e-7)))


def _row(name: str, times: _Times, case: Case | None = None) -> Row:
    return Row(
        case=name,
        floor=None if case is None else case.floor.name,
        minimum=min(times.samples),
        median=statistics.median(times.samples),
        figure=None if case is None else statistics.median(times.ratios),
        limit=None if case is None else case.limit,
        goal=None if case is None else case.goal,
    )

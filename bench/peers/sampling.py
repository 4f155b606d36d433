"""Times of calls and of their floor, taken one after the other in the peer's own process."""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from contestant import Attempt, Handler, Offer, Way
from floors import FLOOR_OF_ADD, FLOOR_OF_ORDER
from measuring import SAMPLE_SECONDS, Block, Probe, measure
from ways import opened_block, opened_call
from workload import (
    ADD_ARGUMENTS,
    ORDER_ARGUMENTS,
    add,
    add_async,
    create_order,
    create_order_async,
)

SHORT_SESSION: Final = 100
"""The most calls of a session, where its length may count."""

FLOOR_SECONDS: Final = 0.02
GROWTH_SECONDS: Final = 8.0
FEWEST_ATTEMPTS: Final = 3


class NotDoneError(Exception):
    """A call did not do its work; its time would say nothing."""


@dataclass(frozen=True)
class Work:
    """One of the two tools.

    Args:
        name: The tool's name.
        arguments: The JSON text of a call's arguments.
        handlers: The function, async and sync.
        floor: The same work without a host.
        answer: What is found in each answer.
    """

    name: str
    arguments: str
    handlers: dict[Handler, Callable[..., Any]]
    floor: Probe
    answer: str


WORKS: Final = {
    work.name: work
    for work in (
        Work("add", ADD_ARGUMENTS, {"async": add_async, "sync": add}, FLOOR_OF_ADD, "42"),
        Work(
            "create_order",
            ORDER_ARGUMENTS,
            {"async": create_order_async, "sync": create_order},
            FLOOR_OF_ORDER,
            "ord_000123",
        ),
    )
}


@dataclass(frozen=True)
class Timing:
    """The seconds of one run: of the floor, and of the case measured right after it.

    Args:
        floor: The median of the floor.
        subject: The median of what was measured.
        fastest_floor: The fastest sample of the floor.
        fastest_subject: The fastest sample of what was measured.
    """

    floor: float
    subject: float
    fastest_floor: float
    fastest_subject: float

    @classmethod
    def of(cls, floors: Sequence[float], subjects: Sequence[float]) -> Timing:
        """Return what samples of both come to."""
        return cls(
            statistics.median(floors), statistics.median(subjects), min(floors), min(subjects)
        )


@dataclass(frozen=True)
class Growth:
    """A session at its beginning and at its end.

    Args:
        early: Its first calls.
        late: Its last calls.
        calls: How many there were.
    """

    early: Timing
    late: Timing
    calls: int


def take(way: Way, work: Work, handler: Handler, seconds: float) -> Timing:
    """Measure the floor, then calls of one tool.

    Where the length of a session may count, sessions are short, and as many as it takes.

    Raises:
        NotDoneError: If a call does not do its work.
    """
    offer = Offer({work.name: work.handlers[handler]})
    _see_it_done(way, work, offer)
    floors = _floor(work)
    gc.collect()
    samples: list[float] = []
    until = perf_counter() + seconds
    while not samples or perf_counter() < until:
        with opened_block(way, offer, work.name, work.arguments) as block:
            samples += _session(block, until, SHORT_SESSION if way.keeps else None)
    return Timing.of(floors, samples)


def grow(way: Way, work: Work, calls: int) -> Growth:
    """Measure the first and the last calls of one session, which ends early when it takes long.

    Raises:
        NotDoneError: If a call does not do its work.
    """
    offer = Offer({work.name: work.handlers[way.handlers[0]]})
    # What is imported and made at a first call is not the session's doing.
    _see_it_done(way, work, offer)
    until = perf_counter() + GROWTH_SECONDS
    with opened_block(way, offer, work.name, work.arguments) as block:
        early = _window(work, block)
        done = SHORT_SESSION
        while done < calls - SHORT_SESSION and perf_counter() < until:
            block(SHORT_SESSION)
            done += SHORT_SESSION
        late = _window(work, block)
    return Growth(early, late, done + SHORT_SESSION)


def put_back(opened: AbstractContextManager[Attempt], work: Work, seconds: float) -> Timing:
    """Measure calls that write a file and fail.

    Raises:
        NotDoneError: If the file is there afterwards.
    """
    with opened as attempt:
        attempt.fail()
        floors = _floor(work)
        gc.collect()
        samples: list[float] = []
        until = perf_counter() + seconds
        while len(samples) < FEWEST_ATTEMPTS or perf_counter() < until:
            started = perf_counter()
            attempt.fail()
            samples.append(perf_counter() - started)
        if attempt.left():
            raise NotDoneError("The file that a failing call wrote is still there.")
    return Timing.of(floors, samples)


def _see_it_done(way: Way, work: Work, offer: Offer) -> None:
    with opened_call(way, offer) as call:
        answer = str(call(work.name, work.arguments))
    if work.answer not in answer:
        raise NotDoneError(f"A call of {work.name} was answered with: {answer[:300]}")


def _floor(work: Work) -> list[float]:
    return measure(work.floor, FLOOR_SECONDS)


def _window(work: Work, block: Block) -> Timing:
    floors = _floor(work)
    gc.collect()
    return Timing.of(floors, [block(1) for _ in range(SHORT_SESSION)])


def _session(block: Block, until: float, most: int | None) -> list[float]:
    once = block(1)
    calls = 1
    each = max(1, math.ceil(SAMPLE_SECONDS / max(once, 1e-7)))
    if most is not None:
        each = min(each, most // 4)
    samples: list[float] = []
    while not samples or (perf_counter() < until and (most is None or calls + each <= most)):
        samples.append(block(each) / each)
        calls += each
    return samples

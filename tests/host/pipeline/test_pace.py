"""A handler that was brief the last time is waited for on the spot, and no other."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from toolstile.drivers import job as jobs
from toolstile.drivers.async_driver import AsyncDriver
from toolstile.drivers.background_loop import Background
from toolstile.drivers.job import BRIEF, MOMENT, HandlerTiming, Job, Run
from toolstile.drivers.limit import Limit
from toolstile.drivers.sync_driver import SyncDriver
from toolstile_hookspecs.support.event_loop import Workers

from .job_owner import Owner

PATIENCE = 60.0
Driver = AsyncDriver | SyncDriver


@pytest.fixture(params=[AsyncDriver, SyncDriver])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    workers, background = Workers(), Background()
    yield AsyncDriver(workers) if request.param is AsyncDriver else SyncDriver(workers, background)
    workers.close()
    background.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One for each look at a job between two of which other threads may run."""
    seen: list[None] = []

    def let_others_run() -> None:
        seen.append(None)
        time.sleep(0)

    monkeypatch.setattr(jobs, "_let_others_run", let_others_run)
    return seen


def of(seconds: float) -> HandlerTiming:
    known = HandlerTiming()
    known.seconds = seconds
    return known


def drive(
    driver: Driver, function: Any, known: HandlerTiming | None, owner: Owner | None = None
) -> Any:
    def pipeline() -> Any:
        return (yield Run(function, False, Limit(PATIENCE), owner or Owner(), False, pace=known))

    if isinstance(driver, SyncDriver):
        return driver.drive(pipeline())
    return asyncio.run(driver.drive(pipeline()))


def job(seconds: float) -> Job:
    """A job that never begins, of a handler that took some time before."""
    step = Run(lambda: None, False, Limit(), Owner(), False, pace=of(seconds))
    return Job(step, lambda: None)


@pytest.mark.parametrize(
    ("seconds", "brief"), [(BRIEF / 2, True), (BRIEF, False), (1.0, False), (math.inf, False)]
)
def test_what_was_brief_is_taken_to_be_so_again(
    looks: list[None], seconds: float, brief: bool
) -> None:
    job(seconds).spin()
    assert bool(looks) is brief


def test_a_look_out_ends_with_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # As long as it takes, whatever the machine has to do meanwhile.
    monkeypatch.setattr(jobs, "MOMENT", PATIENCE)
    brief, looks = job(0.0), count()

    def finish_soon() -> None:
        brief.finished = next(looks) == 3

    monkeypatch.setattr(jobs, "_let_others_run", finish_soon)
    brief.spin()
    assert next(looks) == 4


def test_a_look_out_ends_after_a_moment() -> None:
    began = time.perf_counter()

    job(0.0).spin()

    assert time.perf_counter() - began >= MOMENT


def test_where_threads_cannot_yield_it_does_not_look(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_let_others_run", None)
    assert drive(driver, lambda: "done", of(0.0)) == "done"


def test_a_handler_is_known_by_what_it_took_the_last_time(driver: Driver) -> None:
    known = HandlerTiming()

    drive(driver, lambda: time.sleep(2 * BRIEF), known)
    slow = known.seconds
    drive(driver, lambda: None, known)

    assert slow > BRIEF
    assert known.seconds < slow


def test_a_slow_handler_is_not_looked_out_for(driver: Driver, looks: list[None]) -> None:
    assert drive(driver, lambda: "done", of(1.0)) == "done"
    assert drive(driver, lambda: "done", HandlerTiming()) == "done"
    assert drive(driver, lambda: "done", None) == "done"
    assert looks == []


def test_what_a_look_out_finds_is_the_answer(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOMENT", PATIENCE)
    assert drive(driver, lambda: "done", of(0.0)) == "done"

    def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        drive(driver, fail, of(0.0))


def test_what_takes_longer_than_it_did_is_waited_for(driver: Driver, looks: list[None]) -> None:
    release = threading.Event()

    def work() -> bool:
        threading.Timer(0.01, release.set).start()
        return release.wait(PATIENCE)

    assert drive(driver, work, of(0.0))
    assert looks


def test_a_loop_goes_on_while_it_waits_for_what_takes_longer() -> None:
    release, workers = threading.Event(), Workers()

    async def main() -> Any:
        asyncio.get_running_loop().call_later(0.01, release.set)
        return await AsyncDriver(workers).drive(pipeline())

    def pipeline() -> Any:
        work = lambda: release.wait(PATIENCE)  # noqa: E731 - a handler
        return (yield Run(work, False, Limit(PATIENCE), Owner(), False, pace=of(0.0)))

    assert asyncio.run(main())
    workers.close()


def test_an_interrupted_look_out_gives_its_job_up(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, release = Owner(), threading.Event()

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "_let_others_run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        drive(driver, lambda: release.wait(PATIENCE), of(0.0), owner)
    release.set()

    assert owner.ended.wait(PATIENCE)
    assert owner.told == ["lost its caller, which was interrupted", "ended late"]

"""A job finishes or is abandoned, decided once, and its owner hears of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from toolstile.drivers.background_loop import Background
from toolstile.drivers.job import Job, Run
from toolstile.drivers.limit import Limit
from toolstile_hookspecs.support.event_loop import Workers

from .job_owner import Owner

# Only what never comes takes this long.
PATIENCE = 60.0


class Bench:
    """Starts jobs, sync and async, on real threads and a real loop."""

    def __init__(self) -> None:
        self.workers = Workers()
        self.background = Background()

    def start(self, function: Any, owner: Owner, *, is_async: bool) -> tuple[Job, threading.Event]:
        done = threading.Event()
        job = Job(Run(function, is_async, Limit(), owner, inline=False), done.set)
        job.start(self.workers, self.background)
        return job, done


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.workers.close()
    made.background.close()


def waiting(release: threading.Event, *, is_async: bool, fails: bool = False) -> Any:
    def work() -> str:
        assert release.wait(PATIENCE)
        if fails:
            raise LookupError
        return "done"

    async def awork() -> str:
        try:
            while not release.is_set():  # noqa: ASYNC110 - set by another thread
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            # It has something to tidy up.
            await asyncio.sleep(0.001)
            raise
        return work()

    return awork if is_async else work


@pytest.mark.parametrize("is_async", [False, True])
def test_one_that_has_finished_cannot_be_given_up(bench: Bench, is_async: bool) -> None:
    release, owner = threading.Event(), Owner()
    release.set()
    job, done = bench.start(waiting(release, is_async=is_async), owner, is_async=is_async)
    assert done.wait(PATIENCE)

    assert not job.give_up("too late")
    assert (job.finished, job.answer(), owner.told) == (True, "done", [])


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_one_that_was_given_up_never_finishes(bench: Bench, is_async: bool, fails: bool) -> None:
    release, owner = threading.Event(), Owner()
    work = waiting(release, is_async=is_async, fails=fails)
    job, done = bench.start(work, owner, is_async=is_async)

    assert job.give_up("timed out")
    assert not job.give_up("once more")
    release.set()
    assert owner.ended.wait(PATIENCE)

    assert owner.told == ["timed out", "ended late"]
    assert not job.finished
    assert not done.is_set()


@pytest.mark.parametrize("is_async", [False, True])
def test_one_that_is_given_up_before_it_begins_ends_at_once_and_never_begins(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    put_off: list[Any] = []

    def put(*begins: Any) -> None:
        put_off.append(begins)

    owner, begun = Owner(), threading.Event()
    if is_async:
        monkeypatch.setattr(bench.background.loop, "call_soon_threadsafe", put)
    else:
        monkeypatch.setattr(Workers, "submit", lambda _, task: put(task))
    job, done = bench.start(begun.set, owner, is_async=is_async)

    assert job.give_up("timed out")
    assert owner.told == ["timed out", "ended late"]
    function, *given = put_off[0]
    function(*given)
    assert [begun.is_set(), done.is_set()] == [False, False]
    assert owner.told == ["timed out", "ended late"]


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True])
def test_at_any_moment_exactly_one_of_both_holds(bench: Bench, is_async: bool) -> None:
    for _ in range(200):
        release, owner = threading.Event(), Owner()
        work = waiting(release, is_async=is_async)
        job, done = bench.start(work, owner, is_async=is_async)
        releasing = threading.Thread(target=release.set)
        releasing.start()
        given_up = job.give_up("timed out")
        releasing.join(PATIENCE)

        ended = owner.ended if given_up else done
        assert ended.wait(PATIENCE)
        assert job.finished is not given_up
        assert done.is_set() is not given_up
        assert owner.told == (["timed out", "ended late"] if given_up else [])

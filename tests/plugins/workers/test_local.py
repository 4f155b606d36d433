"""The dispatcher of one machine, and its marks of a start."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.dispatcher import (
    DispatchedCall,
    DispatchOutcome,
    DispatchState,
    StartMarks,
)
from toolstile_hookspecs.testing import DispatcherContract, StartMarksContract
from toolstile_hookspecs.testing.dispatch_processes import Make
from toolstile_plugins.workers.local import CallQueue, LocalDispatcher
from toolstile_plugins.workers.settings import WorkersSettings


@contextmanager
def marks_in(file: Path) -> Generator[StartMarks]:
    with closing(CallQueue(file, lease=1)) as queue:
        yield queue.marks


@pytest.mark.parametrize("text", ['["paused", "x"]', "[]", "{", "5", '["result",1,2,3,4,5,6,7]'])
def test_an_outcome_of_another_form_is_unknown(text: str) -> None:
    # A newer worker must not end the thread for which all calls of a host wait.
    assert DispatchOutcome.from_json(text).state is DispatchState.UNKNOWN


def test_who_joins_a_call_while_the_file_fails_is_told_that_it_may_have_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = DispatchedCall("k", "pay", None, "{}")

    def fail(*_: object) -> None:
        raise StateError("The disk is full.")

    async def run(dispatcher: LocalDispatcher) -> list[DispatchOutcome]:
        first = asyncio.ensure_future(dispatcher.submit(call))
        await asyncio.sleep(0.1)
        monkeypatch.setattr(CallQueue, "enter", fail)
        return [await dispatcher.submit(call), await first]

    with closing(LocalDispatcher(WorkersSettings(path=tmp_path / "calls.db"))) as dispatcher:
        told = asyncio.run(run(dispatcher))
    assert told == [DispatchOutcome(DispatchState.UNKNOWN, "The disk is full.")] * 2


def test_a_worker_is_not_dead_because_its_machine_slept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The clock of the boot has run on for an hour, in which no worker could send a heartbeat.
    real = time.clock_gettime
    file = tmp_path / "calls.db"
    with closing(CallQueue(file, lease=1)) as queue:
        queue.beat("worker", {"pay": None})
        monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + 3600)
        queue.look_after()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT id FROM toolstile_workers").fetchall() == [("worker",)]


class TestMarks(StartMarksContract):
    """Marks in a file."""

    @pytest.fixture
    def marks(self, tmp_path: Path) -> Generator[StartMarks]:
        with marks_in(tmp_path / "calls.db") as marks:
            yield marks

    @pytest.fixture
    def others(self, tmp_path: Path) -> Generator[StartMarks]:
        with marks_in(tmp_path / "calls.db") as marks:
            yield marks


class TestLocalDispatcher(DispatcherContract):
    """Calls through a file."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        return partial(LocalDispatcher, WorkersSettings(path=tmp_path / "calls.db", lease=0.6))

    @pytest.fixture(
        params=[
            pytest.param(40, marks=pytest.mark.slow),
            pytest.param(2000, marks=pytest.mark.long),
        ]
    )
    def number_of_calls(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)

"""A worker of this machine: what it does where its file fails, or where it was taken for dead."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from toolstile_hookspecs.services.dispatcher import DispatchedCall, DispatchOutcome, DispatchState
from toolstile_hookspecs.testing.dispatch_processes import PATIENCE, PAUSE
from toolstile_hookspecs.testing.dispatcher import submitted
from toolstile_plugins.workers.local import LocalDispatcher
from toolstile_plugins.workers.settings import WorkersSettings

pytestmark = pytest.mark.slow

CALL = DispatchedCall("k", "pay", None, "{}")
PAID = DispatchOutcome(DispatchState.RESULT, "Paid.", "1")


class Runner:
    """Runs a handler, and counts how often."""

    def __init__(self, handler: Callable[[], object]) -> None:
        self.tools: Mapping[str, str | None] = {"pay": None}
        self.runs = 0
        self._handler = handler

    def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:
        assert begin(), call
        self.runs += 1
        self._handler()
        return PAID

    def end(self, key: str, reason: str) -> None:
        pass


@contextmanager
def submitted_to(
    runner: Runner, file: Path, call: DispatchedCall
) -> Generator[Future[list[DispatchOutcome]]]:
    """Serve, and submit a call; gives what becomes of it."""
    stop = Event()
    with (
        closing(LocalDispatcher(WorkersSettings(path=file))) as dispatcher,
        ThreadPoolExecutor(2) as pool,
    ):
        serving = pool.submit(dispatcher.serve, runner, concurrency=2, stop=stop)
        try:
            yield pool.submit(submitted, dispatcher, call)
        finally:
            stop.set()
            serving.result(PATIENCE)


def sql(file: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(file, timeout=PATIENCE)) as connection, connection:
        return connection.execute(statement).fetchall()


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(PAUSE)


def test_an_outcome_is_recorded_once_the_disk_has_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "calls.db"

    def fill_the_disk() -> None:
        sql(
            file,
            "CREATE TRIGGER full BEFORE UPDATE ON toolstile_starts "
            "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END",
        )

    caplog.set_level(logging.WARNING, "toolstile.workers")
    with submitted_to(Runner(fill_the_disk), file, CALL) as told:
        until(lambda: "disk is full" in caplog.text)
        sql(file, "DROP TRIGGER full")
        assert told.result(PATIENCE) == [PAID]


def test_a_worker_that_was_taken_for_dead_goes_on_with_its_call(tmp_path: Path) -> None:
    """It has the call again, and does not begin it once more."""
    file, go_on = tmp_path / "calls.db", Event()
    runner = Runner(go_on.wait)
    with submitted_to(runner, file, CALL._replace(repeatable=True)) as told:
        try:
            until(lambda: runner.runs)
            sql(file, "UPDATE toolstile_calls SET worker = NULL")
            until(lambda: sql(file, "SELECT 1 FROM toolstile_calls WHERE worker NOT NULL"))
        finally:
            go_on.set()
        assert told.result(PATIENCE) == [PAID]
    assert runner.runs == 1

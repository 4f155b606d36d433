"""A worker of this machine whose file cannot be written for a while."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from toolstile_hookspecs.services.dispatcher import DispatchedCall, DispatchOutcome, DispatchState
from toolstile_hookspecs.testing.dispatch.dispatch_processes import PATIENCE, PAUSE
from toolstile_hookspecs.testing.dispatch.dispatcher import submitted
from toolstile_plugins.workers.local import LocalDispatcher
from toolstile_plugins.workers.settings import WorkersSettings

PAID = DispatchOutcome(DispatchState.RESULT, "Paid.", "1")


class FillingTheDisk:
    """Runs a handler after which no outcome can be written to a file."""

    def __init__(self, file: Path) -> None:
        self.tools: Mapping[str, str | None] = {"pay": None}
        self._file = file

    def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:
        assert begin()
        change(
            self._file,
            "CREATE TRIGGER full BEFORE UPDATE ON toolstile_starts "
            "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END",
        )
        return PAID

    def end(self, key: str, reason: str) -> None:
        pass


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file, timeout=PATIENCE)) as connection, connection:
        connection.execute(statement)


@pytest.mark.slow
def test_an_outcome_is_recorded_once_the_disk_has_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, stop = tmp_path / "calls.db", Event()

    def make_room() -> None:
        until = time.monotonic() + PATIENCE
        while "disk is full" not in caplog.text and time.monotonic() < until:
            time.sleep(PAUSE)
        change(file, "DROP TRIGGER full")

    with (
        caplog.at_level(logging.WARNING, "toolstile.workers"),
        closing(LocalDispatcher(WorkersSettings(path=file))) as dispatcher,
        ThreadPoolExecutor(2) as pool,
    ):
        serving = pool.submit(dispatcher.serve, FillingTheDisk(file), concurrency=1, stop=stop)
        pool.submit(make_room)
        try:
            assert submitted(dispatcher, DispatchedCall("k", "pay", None, "{}")) == [PAID]
        finally:
            stop.set()
            serving.result()

"""A stranger's policy counts over four processes exactly, one of which is killed within a call."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from toolstile_plugins.sessions.sqlite import SqliteCounter, SqliteSessions

DRIVER = Path(__file__).with_name("pooled_tokens.py")
KEY = "pool test ada"


def draw(file: Path, most: int, draws: int, *names: str) -> dict[str, list[bool]]:
    """Let processes draw at once; return the draws of each."""
    processes = {
        name: subprocess.Popen(
            [sys.executable, DRIVER, file, name, str(most), str(draws)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    }
    drawn: dict[str, list[bool]] = {}
    for name, process in processes.items():
        told, errors = process.communicate(timeout=120)
        wanted = -signal.SIGKILL if name == "killed" else 0
        assert process.returncode == wanted, errors
        drawn[name] = [line == "1" for line in told.split()]
    return drawn


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.mark.slow
def test_four_processes_use_up_a_pool_exactly(file):
    drawn = draw(file, 60, 25, "a", "b", "c", "d")
    # A draw holds 2 and uses 1, so that the last one stays.
    used = sum(map(sum, drawn.values()))
    assert used == 59
    with closing(SqliteSessions(file)) as sessions:
        counter = SqliteCounter(sessions)
        now = datetime.now(UTC)
        assert counter.read(KEY, now=now) == used
        assert counter.read("pool test bob", now=now) == 0


@pytest.mark.slow
def test_what_a_killed_process_held_counts_in_full_until_it_expires(file):
    drawn = draw(file, 1000, 10, "a", "b", "c", "killed")
    assert [sum(each) for each in drawn.values()] == [10, 10, 10, 9]
    with closing(SqliteSessions(file)) as sessions:
        counter = SqliteCounter(sessions)
        now = datetime.now(UTC)
        assert counter.read(KEY, now=now) == 39 + 2
        # Asked again by a host that makes the same call, it counts once.
        again = counter.reserve(KEY, 2, 1000, 3600, "pool killed killed 9", now=now)
        assert (again.granted, again.is_new) == (True, False)
        assert counter.read(KEY, now=now + timedelta(hours=1)) == 0

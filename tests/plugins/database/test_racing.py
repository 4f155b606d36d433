"""Processes race on one session in PostgreSQL: every entry stands on the one before it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.database.session_store import PostgresSessions

from .conftest import wait_until
from .racing_driver import Places

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("racing_driver.py")


def begun(url: str, processes: int, calls: int) -> list[subprocess.Popen[str]]:
    return [
        subprocess.Popen(
            [sys.executable, DRIVER, url, f"p{number}", str(calls)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]


def told(processes: list[subprocess.Popen[str]]) -> list[list[int]]:
    """Return what each process printed, once it has ended."""
    lines = []
    for process in processes:
        out, errors = process.communicate(timeout=550)
        assert process.returncode == 0, errors
        lines.append(json.loads(out))
    return lines


class Book:
    """The session as its entries tell it, one after the other."""

    def __init__(self, url: str) -> None:
        self.written: Counter[str] = Counter()
        self.logged: Counter[str] = Counter()
        self.epochs = 0
        with closing(PostgresSessions(PostgresDatabase(url))) as store:
            self.entries = store.after("s", 0)
            (self.places,) = store.held.read("SELECT count(*) FROM toolstile_counts")[0]
            self.effects = store.held.read("SELECT state FROM toolstile_effects")
        lines: list[Any] = []
        for number, entry in enumerate(self.entries, 1):
            assert entry.number == number
            changes = json.loads(entry.changes)
            change = changes["slices"].get("racing.Line")
            if change is not None:
                lines = self._changed(lines, change, is_reset=entry.epoch > self.epochs)
            self.epochs = entry.epoch
            self.logged.update(each["text"] for each in changes["logs"].get("racing.Seen", ()))

    def _changed(self, lines: list[Any], change: Any, *, is_reset: bool) -> list[Any]:
        if is_reset:
            assert change["items"] == []
            return []
        new = change["items"] if change["at"] is not None else change["items"][len(lines) :]
        assert change["at"] in (None, len(lines))
        for place, item in enumerate(new, len(lines)):
            assert item["number"] in (-1, place)
        self.written.update(f"{item['number'] < 0} {item['text']}" for item in new)
        return [*lines, *new]


def check(url: str, lines: list[list[int]], calls: int, *, is_away: bool = False) -> Book:
    """See that all that the processes did is in the entries, once."""
    book = Book(url)
    names = [f"p{number}" for number in range(len(lines))]
    takes = {f"False {name}-{number}" for name in names for number in range(3, calls, 4)}
    wanted = {f"False {name}-{number}" for name in names for number in range(calls)} - takes
    wanted |= {f"True {name}-{number}" for name in names for number in range(7, calls, 20)}
    taken = sum(places for _, places in lines)
    most = min(Places.most, len(takes))
    assert taken == book.places == most
    assert {text for text in book.written if text in takes} <= takes
    assert set(book.written) - takes == wanted
    assert sum(book.written[text] for text in takes) == most
    assert {*book.written.values()} == {1}
    seen = {f"{name}-{number}" for name in names for number in range(3, calls, 10)}
    assert book.logged == Counter(seen)
    assert book.epochs == sum(1 for _ in names for _ in range(49, calls, 50))
    assert {state for (state,) in book.effects} == {"done"}
    return book


@pytest.mark.parametrize(
    ("processes", "calls"), [(2, 51), pytest.param(8, 200, marks=pytest.mark.long)]
)
def test_what_all_did_is_there_once(url: str, processes: int, calls: int) -> None:
    check(url, told(begun(url, processes, calls)), calls)


@pytest.mark.long
def test_what_all_did_is_there_once_though_the_server_was_restarted(
    url: str, postgres: Any
) -> None:
    processes = begun(url, 4, 150)
    for mode in ("immediate", "fast", "immediate"):
        before = entries_of(url)
        wait_until(lambda before=before: entries_of(url) > before + 40, seconds=120)
        postgres.stop(mode)
        time.sleep(0.5)
        postgres.start()
    check(url, told(processes), 150)


def entries_of(url: str) -> int:
    """Return how many entries there are by now."""
    with closing(PostgresDatabase(url)) as database:
        there = database.read("SELECT to_regclass('toolstile_sessions')::text")
        if there == [(None,)]:
            return 0
        ((number,),) = database.read("SELECT count(*) FROM toolstile_sessions")
        return int(number)

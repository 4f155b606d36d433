"""Killed at any instant, the parts of a transaction are all there, or none is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.plugins.database.conftest import made_schema

pytestmark = [pytest.mark.slow, pytest.mark.much_alike(1)]

ALL = {"files": 4, "rows": 1, "records": 2}
NOTES = {"memory": {}, "stored": {"notes": 2}}
SEEN = {
    "memory": {"before the record", "after the record", "decided", "before the till's commit"},
    "stored": {"in the open decision", "after the entry", "after the commit", "decided"},
}


def drive(sessions: str, *arguments: str, database: str = "") -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.plugins.transactions.kill_driver", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "TOOLSTILE_TEST_SESSIONS": sessions,
            "TOOLSTILE_TEST_DATABASE": database,
        },
        timeout=3_600,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def kept_of(found: list[dict[str, Any]], sessions: str) -> list[bool]:
    """Return whether each transaction was kept, having seen that nothing is half there."""
    kept = []
    for first, second in zip(found[::2], found[1::2], strict=True):
        assert first == second
        known = first.pop("known")
        whole = ALL | NOTES[sessions]
        assert first in (whole, dict.fromkeys(whole, 0)), first
        assert not known or first == whole
        kept.append(first == whole)
    return kept


def kept_at(sessions: str, places: list[int], database: str = "") -> list[bool]:
    return kept_of(drive(sessions, "at", *map(str, places), database=database), sessions)


STORED = pytest.param("stored", marks=pytest.mark.long)


@pytest.mark.parametrize("sessions", ["memory", STORED])
def test_killed_between_two_records_of_one_decision(sessions):
    (steps,) = drive(sessions, "steps")
    assert set(steps) >= SEEN[sessions]
    first, *_, last = [place for place, step in enumerate(steps) if step == "after the record"]
    decided = steps.index("decided")
    assert kept_at(sessions, [first, last, decided]) == [False, False, True]


@pytest.mark.long
@pytest.mark.parametrize("sessions", NOTES)
def test_killed_at_every_step(sessions):
    (steps,) = drive(sessions, "steps")
    kept = kept_at(sessions, list(range(len(steps))))
    assert kept == sorted(kept)
    assert set(kept) == {False, True}


@pytest.mark.long
def test_killed_at_every_step_in_a_database(postgres):
    (steps,) = drive("stored", "steps", database=made_schema(postgres))
    shares = [list(range(share, len(steps), 4)) for share in range(4)]
    urls = [made_schema(postgres) for _ in shares]
    # Side by side: most of a round is waiting for the lease of the process that was killed.
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda share, url: kept_at("stored", share, url), shares, urls))
    kept = [each for _, each in sorted(zip(sum(shares, []), sum(found, []), strict=True))]  # noqa: RUF017 - short
    assert kept == sorted(kept)
    assert set(kept) == {False, True}


@pytest.mark.parametrize("sessions", [pytest.param("memory", marks=pytest.mark.long), "stored"])
def test_killed_at_a_few_random_instants(sessions):
    assert len(kept_of(drive(sessions, "random", "3"), sessions)) == 3


@pytest.mark.long
@pytest.mark.parametrize("sessions", NOTES)
def test_killed_at_random_instants(sessions):
    seen = Counter(kept_of(drive(sessions, "random", "200"), sessions))
    assert set(seen) == {False, True}


@pytest.mark.long
def test_killed_at_random_instants_in_a_database(postgres):
    urls = [made_schema(postgres) for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda url: drive("stored", "random", "50", database=url), urls))
    seen = Counter(each for lines in found for each in kept_of(lines, "stored"))
    assert set(seen) == {False, True}

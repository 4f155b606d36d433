"""Killed at any instant, payments minus refunds equals the payments that are committed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.plugins.database.conftest import made_schema

pytestmark = [pytest.mark.slow, pytest.mark.much_alike(1)]


def drive(sessions: str, *arguments: str, database: str = "") -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.plugins.undo.refund_driver", *arguments],
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


def kept_of(found: list[dict[str, Any]]) -> tuple[list[bool], int]:
    """Return whether each payment was kept, and the kills, having seen that the books balance."""
    *looks, kills = found
    kept = []
    for first, second in zip(looks[::2], looks[1::2], strict=True):
        assert first == second
        assert first["balance"] == first["committed"] <= first["lines"] <= 1
        notes, files = first.get("notes", 0), first.get("files", 0)
        # Alone, the payment leaves one note; in a transaction, two calls leave one each.
        assert bool(notes) == bool(first["committed"]) or "notes" not in first
        assert files in ((2,) if notes == 2 else (0,))
        kept.append(bool(first["committed"]))
    return kept, kills["kills"]


@pytest.mark.parametrize("sessions", ["stored", pytest.param("memory", marks=pytest.mark.long)])
@pytest.mark.parametrize("step", ["after the payment", "after it is owed", "before the mark"])
def test_killed_around_a_payment_that_is_rolled_back(sessions, step):
    kept, kills = kept_of(drive(sessions, "at", "rolled back", step))
    assert kept == [False]
    assert kills == 3


@pytest.mark.long
@pytest.mark.parametrize("sessions", ["stored", "memory"])
@pytest.mark.parametrize("way", ["alone", "kept", "rolled back", "undone"])
def test_killed_at_every_step(sessions, way):
    (steps,) = drive(sessions, "steps", way)
    kept, kills = kept_of(drive(sessions, "at", way, *map(str, range(len(steps)))))
    assert kills >= len(steps)
    assert set(kept) == ({False} if way == "rolled back" else {False, True})


@pytest.mark.long
@pytest.mark.parametrize("way", ["kept", "rolled back", "undone"])
def test_killed_at_every_step_in_a_database(postgres, way):
    database = made_schema(postgres)
    (steps,) = drive("stored", "steps", way, database=database)
    places = map(str, range(len(steps)))
    kept_of(drive("stored", "at", way, *places, database=database))


@pytest.mark.long
@pytest.mark.parametrize("sessions", ["stored", "memory"])
def test_killed_at_random_instants(sessions):
    kept, kills = kept_of(drive(sessions, "random", "100"))
    assert kills >= 80
    assert set(kept) == {False, True}

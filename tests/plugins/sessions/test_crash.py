"""Killed at any instant, a call's session, record and files are all there, or none is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("crash_driver.py")

RAN, REPLAYED, UNKNOWN = "ran", "replayed", "unknown"

STEPS = {
    "before the claim": RAN,
    "after the claim": UNKNOWN,
    "inside the handler": UNKNOWN,
    "after the effect": UNKNOWN,
    "staging": UNKNOWN,
    "staged": UNKNOWN,
    "prepared": UNKNOWN,
    "before the decision": UNKNOWN,
    "in the open decision": UNKNOWN,
    "before the record": UNKNOWN,
    "after the record": UNKNOWN,
    "before the entry": UNKNOWN,
    "after the entry": UNKNOWN,
    "after the commit": REPLAYED,
    "deciding": REPLAYED,
    "decided": REPLAYED,
    "apply:0": REPLAYED,
    "apply:1": REPLAYED,
    "applied": REPLAYED,
    "forgotten": REPLAYED,
}
WITHIN = {
    "before the caller ends": UNKNOWN,
    "prepared": UNKNOWN,
    "before the record": UNKNOWN,
    "after the entry": UNKNOWN,
    "after the commit": REPLAYED,
    "decided": REPLAYED,
    "apply:1": REPLAYED,
    "applied": REPLAYED,
}
ALL = {"files": 2, "notes": 1, "records": 1}
NONE = {"files": 0, "notes": 0, "records": 0}


def drive(*arguments: str, database: str = "") -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, DRIVER, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TOOLSTILE_TEST_DATABASE": database},
        timeout=3_600,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def what_it_was(line: dict[str, Any]) -> str:
    """Return what came of calling again, having seen that nothing is half there."""
    before, after = line["before"], line["after"]
    effects = before.pop("effects")
    assert effects <= 1, line
    assert after.pop("effects") <= 1, line
    assert line["aside"] == [True, True], line
    if line["replayed"]:
        assert line["success"], line
        assert (before, after) == (ALL, ALL), line
        return REPLAYED
    if line["success"]:
        assert (effects, before, after) == (0, NONE, ALL), line
        return RAN
    assert "may have happened" in line["text"], line
    assert (before, after) == (NONE, NONE), line
    return UNKNOWN


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(step):
    (line,) = drive("at", step, "act", "act")
    assert what_it_was(line) == STEPS[step]


@pytest.mark.parametrize("step", WITHIN)
def test_killed_while_a_call_within_contributes_to_the_decision(step):
    (line,) = drive("at", step, "put_within", "put")
    assert what_it_was(line) == WITHIN[step]


def test_killed_at_a_few_random_instants():
    lines = drive("random", "6")
    assert len(lines) == 18
    for line in lines:
        what_it_was(line)


@pytest.mark.long
def test_killed_at_random_instants():
    lines = drive("random", "300")
    assert len(lines) == 900
    seen = Counter(what_it_was(line) for line in lines)
    assert set(seen) == {RAN, REPLAYED, UNKNOWN}

"""Killed at any instant, a call has its effect once, or is known to be unknown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("crash_driver.py")

RAN, REPLAYED, UNKNOWN = "ran", "replayed", "unknown"

BOUNDARIES = {
    "before the claim": (RAN, 0),
    "after the claim": (UNKNOWN, 0),
    "inside the handler": (UNKNOWN, 0),
    "after the effect": (UNKNOWN, 1),
    "staging": (UNKNOWN, 1),
    "prepared": (UNKNOWN, 1),
    "before the record": (UNKNOWN, 1),
    "after the record": (REPLAYED, 1),
    "deciding": (REPLAYED, 1),
    "decided": (REPLAYED, 1),
    "apply:1": (REPLAYED, 1),
    "applied": (REPLAYED, 1),
    "forgotten": (REPLAYED, 1),
}

WITHIN = {
    "before the claim": (RAN, 2),
    "before the caller ends": (UNKNOWN, 0),
    "prepared": (UNKNOWN, 0),
    "before the record": (UNKNOWN, 0),
    "after the record": (REPLAYED, 2),
    "decided": (REPLAYED, 2),
    "applied": (REPLAYED, 2),
}
"""The record of the call within decides on the files, with the call around it."""


def drive(*arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, DRIVER, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    # Nobody is told to remove what recovery needs, where it needs nobody.
    assert "left in the middle of a commit" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def what_it_was(line: dict[str, Any]) -> str:
    """Return what came of calling again, having seen that it is sound."""
    assert line["before"] <= 1, line
    assert line["after"] <= 1, line
    assert line["at the end"] == line["after"], line
    if line["replayed"]:
        # It was recorded, so it has happened, and its files were rolled forward.
        assert (line["success"], line["before"], line["files"]) == (True, 1, 2), line
        # They are there as soon as the call is answered, not when the next one looks.
        assert line["on disk"] == 2, line
        return REPLAYED
    if line["success"]:
        assert (line["before"], line["after"], line["files"]) == (0, 1, 2), line
        return RAN
    # It may have happened, was not run again, and left nothing behind here.
    assert "may have happened" in line["text"], line
    assert (line["after"], line["files"], line["twice"]) == (line["before"], 0, True), line
    return UNKNOWN


@pytest.mark.slow
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_killed_at_a_boundary(boundary):
    (line,) = drive("at", boundary, "act", "act")
    assert (what_it_was(line), line["before"]) == BOUNDARIES[boundary]


@pytest.mark.slow
@pytest.mark.parametrize("boundary", WITHIN)
def test_killed_while_a_nested_contained_call_is_not_committed(boundary):
    (line,) = drive("at", boundary, "put_within", "put")
    told, files = WITHIN[boundary]
    if told == UNKNOWN:
        assert "may have happened" in line["text"]
    else:
        assert (line["success"], line["replayed"]) == (True, told == REPLAYED)
    assert (line["files"], line["twice"]) == (files, True)


@pytest.mark.slow
@pytest.mark.long
def test_killed_at_random_instants():
    lines = drive("random", "500")
    assert len(lines) == 1500
    seen = Counter(what_it_was(line) for line in lines)
    assert set(seen) == {RAN, REPLAYED, UNKNOWN}

"""Processes that ask what became of a call are killed, and several ask at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("reconcile_driver.py")
BEFORE = ["before the hold", "after the hold", "while it asks", "before the finding"]

pytestmark = pytest.mark.slow


def drive(*arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, DRIVER, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def see_that_one_finding_counts(line: dict[str, Any], *, is_found: bool) -> None:
    """Look at what was left by a process that was killed, and at what came of going on."""
    says = line["says"]
    if not is_found or says == "cannot_tell":
        # As it was.
        assert (line["left"], line["reason"]) == ("unknown", "It was cut off."), line
        assert (line["over"], line["found"]) == (False, [says]), line
    else:
        assert line["left"] == ("done" if says == "happened" else "unknown"), line
        assert (line["over"], line["found"], line["asked"]) == (True, [], 1), line
    match says:
        case "happened":
            assert (line["replayed"], line["effects"]) == ([True, True], 0), line
        case "did_not":
            assert (line["replayed"], line["effects"]) == ([False, True], 1), line
        case _:
            assert (line["replayed"], line["effects"]) == ([False, False], 0), line
            assert all("may have happened" in text for text in line["texts"]), line
    assert line["texts"][0] == line["texts"][1], line


@pytest.mark.parametrize(
    ("finding", "way"),
    [
        ("did_not", "call"),
        pytest.param("happened", "look", marks=pytest.mark.long),
        pytest.param("happened", "call", marks=pytest.mark.long),
        pytest.param("did_not", "look", marks=pytest.mark.long),
        pytest.param("cannot_tell", "call", marks=pytest.mark.long),
        pytest.param("cannot_tell", "look", marks=pytest.mark.long),
    ],
)
def test_killed_at_a_boundary(finding, way):
    lines = drive("boundaries", finding, way)
    assert [line["boundary"] for line in lines] == [*BEFORE, "after the finding"]
    for line in lines:
        see_that_one_finding_counts(line, is_found=line["boundary"] not in BEFORE)


@pytest.mark.long
def test_killed_at_random_instants():
    lines = drive("random", "60")
    assert len(lines) == 60
    for line in lines:
        see_that_one_finding_counts(line, is_found=line["over"])


@pytest.mark.parametrize("place", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def test_hosts_that_ask_at_once_come_to_one_finding(place, tmp_path, request):
    where = tmp_path / "l.db" if place == "sqlite" else request.getfixturevalue("database")
    (line,) = drive("race", str(where), "20", "3")
    found = Counter(key for peer in line["found"] for key in peer)
    assert sorted(found.values()) == [1] * 20
    assert sorted(line["asked"]) == sorted(f"k{number}" for number in range(20))
    said = Counter(finding for peer in line["found"] for finding in peer.values())
    assert line["states"].count("done") == said["happened"]
    assert line["states"].count("unknown") == said["did_not"]

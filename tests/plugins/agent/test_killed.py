"""A run that is killed at any instant is run again, and nothing of it happens twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL"),
]

DRIVER = Path(__file__).with_name("run_driver.py")
PATIENCE = 60.0


def drive(mode: str, folder: Path, given: str | None = None) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, DRIVER, mode, folder],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    last: dict[str, Any] = json.loads(lines[-1])
    return last


def killed_after(seconds: float | None, folder: Path) -> float:
    """Run the request in a process that is killed so long after it is ready; return its time."""
    child = subprocess.Popen([sys.executable, DRIVER, "go", folder], stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        began = time.perf_counter()
        if seconds is not None:
            time.sleep(seconds)
            child.send_signal(signal.SIGKILL)
        child.stdout.read()
    return time.perf_counter() - began


def assert_whole(told: dict[str, Any], folder: Path) -> None:
    """Assert that each call has one result, and that state, results and effects agree."""
    effects = Counter((folder / "effects.txt").read_text().splitlines())
    assert set(effects.values()) == {1}, effects
    answered = [call_id for call_id, *_ in told["answered"]]
    assert sorted(answered) == sorted(told["made"])
    assert len(set(answered)) == len(answered)
    charged = [text.split()[1] for _, name, text in told["answered"] if text.startswith("charged")]
    assert sorted(told["charges"]) == sorted(charged)
    assert set(charged) <= set(effects)
    for _, name, text in told["answered"]:
        assert name == "count" or text.startswith("charged ") or "may have happened" in text


def kill_at(instants: int, tmp_path: Path) -> list[str]:
    (tmp_path / "whole").mkdir()
    lifetime = killed_after(None, tmp_path / "whole")
    ends: list[str] = []
    for number in range(instants):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed_after(random.uniform(0, lifetime), folder)
        told = drive("go", folder)
        assert told["stop_reason"] == "end"
        assert told["text"] == "All is charged."
        assert told["roles"].count("user") == 1
        assert_whole(told, folder)
        ends += [text for _, _, text in told["answered"]]
    return ends


@pytest.mark.long
def test_killed_at_a_few_instants(tmp_path: Path) -> None:
    kill_at(4, tmp_path)


@pytest.mark.long
def test_killed_at_a_hundred_instants(tmp_path: Path) -> None:
    ends = kill_at(100, tmp_path)
    assert any(text.startswith("charged") for text in ends)


def test_a_request_that_was_answered_is_answered_alike_when_it_comes_again(tmp_path: Path) -> None:
    first = drive("go", tmp_path)
    assert drive("go", tmp_path) == first


def test_a_run_that_waits_is_resumed_by_another_process_after_its_own_was_killed(
    tmp_path: Path,
) -> None:
    waits = drive("pending", tmp_path)
    assert waits["stop_reason"] == "pending"
    assert waits["token"] not in waits["state"]
    assert "r" not in (tmp_path / "effects.txt").read_text().splitlines()

    asked = json.dumps({"state": waits["state"], "token": waits["token"]})
    told = drive("resume", tmp_path, asked)

    assert told["stop_reason"] == "end"
    assert told["roles"].count("user") == 1
    assert Counter((tmp_path / "effects.txt").read_text().splitlines())["r"] == 1
    assert ["refund", "refunded r"] in [answer for _, *answer in told["answered"]]
    assert len({call_id for call_id, *_ in told["answered"]}) == len(told["made"])

"""Killed at any instant, what watches an agent's calls puts back all of a call, or nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("killed_driver.py")
TESTS = Path(__file__).parents[3]
SLOW = pytest.mark.slow
pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]
# What becomes of a failed command, and of a successful one: its changes go, or stay and are told.
BACK, TOLD, KEPT = "0 []", "1 ['", "1 []"
FAILED = {
    **dict.fromkeys(("keeping", "kept before"), BACK),
    **dict.fromkeys(("ending", "written", "staging", "staged", "prepared", "deciding"), TOLD),
    **dict.fromkeys(("decided", *(f"apply:{index}" for index in range(17))), BACK),
    **dict.fromkeys(("applied", "kept", "put back"), BACK),
}
DONE = {
    **dict.fromkeys(("keeping", "kept before"), BACK),
    **dict.fromkeys(("ending", "written"), TOLD),
    "noted": KEPT,
}
QUICK = {("written", True), ("apply:9", True), ("put back", True), ("written", False)}


def drive(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", DRIVER, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_these_are_all_steps(tmp_path: Path) -> None:
    steps = [f"{step}\tTrue" for step in FAILED] + [f"{step}\tFalse" for step in DONE]
    assert drive(tmp_path, "steps").splitlines() == steps


@pytest.mark.parametrize(
    ("step", "fails", "found"),
    [
        pytest.param(step, fails, found, marks=() if (step, fails) in QUICK else SLOW)
        for fails, steps in ((True, FAILED), (False, DONE))
        for step, found in steps.items()
    ],
)
def test_at_each_step(tmp_path: Path, step: str, fails: bool, found: str) -> None:
    assert drive(tmp_path, "at", step, fails).startswith(found)


@pytest.mark.slow
def test_at_random_instants(tmp_path: Path) -> None:
    counts = drive(tmp_path, "random", 200, 50)
    assert sum(int(each.split(": ")[1]) for each in counts.strip("{}").split(", ")) == 200

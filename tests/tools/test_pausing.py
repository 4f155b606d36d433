"""The pauses stop threads in every test, and tell where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
STEPS = """
import time

def step():
    return time.monotonic()

def test_of_time():
    times = [step() for _ in range(10_000)]
    assert max(after - before for before, after in zip(times, times[1:])) < 0.29

def test_of_no_functions():
    pass
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.version_info < (3, 12), reason="it needs sys.monitoring"),
]


def paused(place: Path, *options: str) -> str:
    (place / "tests").mkdir()
    (place / "tests" / "test_steps.py").write_text(STEPS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, *options]
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    run = subprocess.run(
        [*command, "--rootdir", ".", "tests"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr


@pytest.mark.long
def test_what_counts_on_time_fails_and_is_told_what_was_stopped(tmp_path: Path) -> None:
    told = paused(tmp_path, "-p", "pausing", "--pause-seed", "1")

    assert "1 failed, 1 passed" in told
    assert "MainThread, for " in told
    assert "test_steps.py)" in told


@pytest.mark.parametrize(
    ("file", "is_ours"),
    [
        ("toolstile/.tox/slow/lib/python3.13/site-packages/pluggy/_callers.py", False),
        ("toolstile/.tox/slow/lib/python3.13/site-packages/toolstile/host.py", True),
        ("checkout/host/toolstile/host.py", True),
        ("checkout/tests/host/test_host.py", True),
        ("lib/python3.13/asyncio/tasks.py", True),
        ("lib/python3.13/json/decoder.py", False),
    ],
)
def test_packages_are_known_wherever_the_checkout_is(file: str, *, is_ours: bool) -> None:
    asked = f"from pausing.pauses import _is_ours; print(_is_ours({file!r}))"
    run = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "PYTHONPATH": str(TOOLS)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == str(is_ours)


@pytest.mark.long
def test_without_it_nothing_is_stopped(tmp_path: Path) -> None:
    assert "2 passed" in paused(tmp_path)

"""A fork in the middle of a commit: neither it nor the death of its parent keeps others waiting."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("fork_driver.py")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize("way", ["lives", "killed"])
def test_the_next_calls_are_made_wherever_a_commit_forks(way: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", DRIVER, way, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=560, check=False)
    assert done.returncode == 0, done.stderr[-3000:]

"""With `durability = "power"`, calls of many sessions wait for the disk together."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .group_driver import EACH

DRIVER = Path(__file__).with_name("group_driver.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]


def waits_for_the_disk(folder: Path, way: str, callers: int, stores: str) -> int:
    folder.mkdir(exist_ok=True)
    trace = folder / "trace"
    # As slow as a turning disk, because on a faster one no other caller has come yet.
    slow = ["-e", "inject=fsync,fdatasync:delay_enter=10000"]
    watched = ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=fsync,fdatasync", *slow]
    command = [*watched, sys.executable, str(DRIVER), way, str(callers), stores]
    done = subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return sum("sync(" in line for line in trace.read_text().splitlines())


@pytest.mark.parametrize("stores", ["ledger", "sessions"])
@pytest.mark.parametrize("way", ["threads", "tasks"])
def test_64_callers_have_eight_outcomes_for_each_wait(
    tmp_path: Path, way: str, stores: str
) -> None:
    # Repeated, because other processes of a busy machine delay the callers.
    attempts = [tmp_path / str(number) for number in range(3)]
    assert any(64 * EACH / waits_for_the_disk(each, way, 64, stores) >= 8 for each in attempts)


def test_a_caller_alone_waits_for_its_claim_and_for_its_outcome(tmp_path: Path) -> None:
    # Besides, the file and its folder are made, and its log is closed.
    assert 2 * EACH <= waits_for_the_disk(tmp_path, "threads", 1, "ledger") <= 2 * EACH + 16

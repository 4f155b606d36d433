"""The command of a hook refuses a call unless its answer is whole, and the helper is replaced."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolstile_plugins.hook.install import SCRIPT

WHOLE = '{"a": 1}toolstile:end'
BROKEN = {
    "exits with 1": "exit 1",
    "is killed": "kill -9 $$",
    "hangs": "exec sleep 30",
    "prints half an answer": "printf '{\"hookSpec'",
    "prints half of the mark": "printf 'toolstile:e'",
    "prints something after the mark": f"echo '{WHOLE}'; echo more",
    "fails after a whole answer": f"echo '{WHOLE}'; exit 1",
    "prints nothing": "exit 0",
}


SHELLS = [each for each in ("sh", "bash", "busybox", "ksh", "zsh") if shutil.which(each)]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell as `sh` may be one."""
    return {"busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}.get(
        request.param, [request.param]
    )


def run(
    folder: Path, body: str, status: str = "2", seconds: str = "1", shell: Sequence[str] = ("sh",)
) -> subprocess.CompletedProcess[str]:
    """Run the command with a program in Python's place."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(0o755)
    words = [*shell, str(SCRIPT), str(python), "claude-code", seconds, status]
    return subprocess.run(
        words, input="event", capture_output=True, text=True, timeout=20, check=False
    )


@pytest.mark.parametrize("how", BROKEN)
def test_a_client_that_fails_refuses_the_call(
    how: str, tmp_path: Path, shell: Sequence[str]
) -> None:
    done = run(tmp_path, BROKEN[how], shell=shell)
    assert (done.returncode, done.stdout) == (2, "")
    assert "so the call did not run" in done.stderr


def test_another_event_than_a_call_fails_with_the_status_of_the_command(tmp_path: Path) -> None:
    assert run(tmp_path, "exit 1", status="1").returncode == 1


def test_python_that_is_gone_refuses_the_call(tmp_path: Path) -> None:
    words = ["sh", str(SCRIPT), str(tmp_path / "gone"), "claude-code", "1", "2"]
    done = subprocess.run(words, input="", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_whole_answer_is_printed_without_its_mark(tmp_path: Path, shell: Sequence[str]) -> None:
    done = run(tmp_path, f"cat >/dev/null; echo '{WHOLE}'", shell=shell)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"a": 1}', "")
    assert run(tmp_path, "echo toolstile:end").stdout == ""


def test_the_client_reads_the_event(tmp_path: Path) -> None:
    assert run(tmp_path, "cat; echo toolstile:end").stdout == "event"


def test_a_time_limit_leaves_no_process(tmp_path: Path) -> None:
    seconds = f"98{os.getpid()}"  # no other run has these
    folders = [tmp_path / f"{number}" for number in range(60)]

    def run_in(folder: Path) -> None:
        folder.mkdir()
        run(folder, "echo toolstile:end", seconds=seconds)

    # The limit of a quick client ends while it begins.
    with ThreadPoolExecutor(4) as several:
        list(several.map(run_in, folders))
    time.sleep(0.2)
    listed = subprocess.run(
        ["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True
    ).stdout
    assert f"sleep {seconds}" not in listed


def test_the_client_imports_little_and_nothing_of_ours() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); before = {{*sys.modules}}; "
        "import client; print(*sorted({*sys.modules} - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    of_os = {"_collections_abc", "_stat", "genericpath", "os", "os.path", "posixpath", "stat"}
    assert {*done.stdout.split()} <= {"__future__", "_socket", "client", "fcntl", *of_os}

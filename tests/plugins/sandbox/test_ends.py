"""A command ends with its call, however that ends, and leaves nothing on the machine."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from toolstile import Cancellation
from toolstile_hookspecs import Status, ToolCall
from toolstile_plugins.sandbox.limits import cgroups_of
from toolstile_plugins.sandbox.scratch import Scratch, base_of
from toolstile_plugins.sandbox.shell import RUNS

SCRIPT = "echo begun; echo trouble >&2; echo x > a; sleep 61{}"


pytestmark = pytest.mark.slow


def running(mark: str) -> bool:
    told = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return f"sleep 61{mark}" in told.stdout


def await_(condition) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_cancelling_kills_it_and_keeps_its_output_in_the_event(shell, scratch):
    stop = Cancellation()

    def cancel() -> None:
        await_(lambda: running("7"))
        stop.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    command = {"command": ["sh", "-c", SCRIPT.format("7")]}
    outcome = shell.executor.dispatch(ToolCall("shell_execute", command, cancellation=stop))
    thread.join()
    assert outcome.status is Status.CANCELLED
    assert outcome.event.attributes["sandbox.stdout"] == "begun\n"
    assert outcome.event.attributes["sandbox.stderr"] == "trouble\n"
    await_(lambda: not running("7"))
    await_(lambda: not list(scratch.glob("*/*")))
    assert shell.files() == []
    assert RUNS == {}


def test_what_a_killed_host_has_left_goes_with_the_next_start(open_shell, scratch):
    base = base_of(scratch, 1) if scratch.mkdir() is None else None
    assert base is not None
    code = (
        "import pathlib, sys, time\n"
        "from toolstile_plugins.sandbox.scratch import Scratch\n"
        "from toolstile_plugins.sandbox.limits import Cgroup\n"
        f"scratch = Scratch(pathlib.Path({str(base)!r}))\n"
        "group = Cgroup(scratch.name, 1 << 30, 10)\n"
        "locked = pathlib.Path(scratch.directory('upper'), 'd'); locked.mkdir(); locked.chmod(0)\n"
        "print(scratch.name, flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        name = process.stdout.readline().strip()
        open_shell()
        assert (base / name).is_dir()
        process.send_signal(signal.SIGKILL)
    open_shell()
    assert list(base.iterdir()) == []
    assert cgroups_of(name) == []


def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path):
    import os

    (tmp_path / "target").mkdir()
    (tmp_path / f"toolstile-sandbox-{os.geteuid()}").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="not a directory of this user"):
        Scratch(base_of(tmp_path, 1))

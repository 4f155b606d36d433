"""A command ends with its call, however that ends, and leaves nothing on the machine."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from toolstile import Cancellation
from toolstile_hookspecs import MarkdownSection, Prompt, Status, ToolCall
from toolstile_plugins.sandbox import SandboxSettings, scratch as places
from toolstile_plugins.sandbox.backend import backend_of
from toolstile_plugins.sandbox.scratch import Scratch, base_of, cgroups_of
from toolstile_plugins.sandbox.shell import RUNS
from toolstile_plugins.sandbox.tool import shell_tool

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
        "from toolstile_plugins.sandbox.scratch import Cgroup\n"
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


def mounts_held() -> int:
    """Return how many mount namespaces this process keeps from ending."""
    found = 0
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += str(handle.readlink()).startswith("mnt:")
    return found


def test_a_disk_is_waited_for_by_nobody_when_a_command_is_unmounted(shell, scratch):
    held: dict[str, int] = {}

    def look(step: str) -> None:
        held[step] = mounts_held()

    settings = SandboxSettings(scratch=scratch)
    tool = shell_tool(settings, backend_of(settings), steps=look)
    section = MarkdownSection(key="steps", title="Steps", tools=(tool,))
    prompt = Prompt.of("tests", "steps", (section,))
    with shell.host.executor(prompt=prompt) as executor:
        assert executor.dispatch(ToolCall("shell_execute", {"command": ["touch", "a"]})).success
    assert (held["starting"], held["harvested"]) == (0, 1)
    gc.collect()
    await_(lambda: mounts_held() == 0)
    assert shell.files() == ["a"]


def test_by_default_changes_lie_on_the_disk_of_the_workspace_or_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/.cache").mkdir(parents=True)
    kinds = {"this disk": "ext4", "overlay": "overlay"}
    found = {}
    for name, kind in kinds.items():
        monkeypatch.setattr(places, "_file_system", {tmp_path.stat().st_dev: kind}.get)
        found[name] = base_of(None, 1, str(tmp_path)).parent
    assert found == {"this disk": tmp_path / "home/.cache", "overlay": Path("/dev/shm")}
    assert base_of(None, 1, "/dev/shm").parent == base_of(None, 1).parent == Path("/dev/shm")


def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path):
    (tmp_path / "target").mkdir()
    (tmp_path / f"toolstile-sandbox-{os.geteuid()}").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="not a directory of this user"):
        Scratch(base_of(tmp_path, 1))

"""SIGKILL for the processes around a call: the agent, its hook, our client and helper."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.plugins.hook.hooked import Workspace

TARGETS = ("agent", "hook", "client", "helper")


def processes(workspace: Workspace) -> Iterator[tuple[int, list[str]]]:
    """Yield the processes that began with the state of a workspace, with their words."""
    mark = f"XDG_STATE_HOME={workspace.state}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                yield int(folder.name), words


def found(workspace: Workspace, target: str, agent: int) -> list[int]:
    """Return the processes of a target that run."""
    if target in {"agent", "helper"}:
        process = agent if target == "agent" else workspace.helper
        return [process] if process else []
    part = {"hook": 1, "client": 3}[target]
    name = {"hook": "hook.sh", "client": "client.py"}[target]
    return [
        process
        for process, words in processes(workspace)
        if len(words) > part and words[part].endswith(f"/{name}")
    ]


def kill(workspace: Workspace, target: str, agent: int, when: Callable[[], bool]) -> bool:
    """Kill a target as soon as it runs and a time has come; return whether it was killed."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if when():
            for process in found(workspace, target, agent):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    return True
        time.sleep(0.002)
        with suppress(ChildProcessError):
            if os.waitid(os.P_PID, agent, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return False
    return False

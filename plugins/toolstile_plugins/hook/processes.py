"""The processes of this machine, and the ones left behind by an agent's command."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

MARKS: Final = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_CLI")
"""Variables that agents set for their commands, and so for daemons of these."""
_PAUSE: Final = 0.05
_TICK: Final = 0.02
"""The seconds that a process may seem to begin too early, because the system counts in ticks."""


class Process(NamedTuple):
    """A process that has not ended; `began` is its start on the clock of `now`."""

    parent: int
    began: float
    name: str
    owner: int


def now() -> float:
    """Return the time on the clock that the system uses for the start of processes."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def processes() -> dict[int, Process]:
    """Return the processes of all users, by their numbers."""
    found: dict[int, Process] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):  # a small system may have no `ps`
        with suppress(OSError):
            text = file.read_text(errors="replace")
            name, _, rest = text.partition("(")[2].rpartition(") ")
            state, parent, *more = rest.split()
            if state not in {"Z", "X"}:
                began = int(more[17]) / os.sysconf("SC_CLK_TCK")
                owner = file.parent.stat().st_uid
                found[int(file.parent.name)] = Process(int(parent), began, name, owner)
    if found:
        return found
    words = ["ps", "-A", "-o", "pid=,ppid=,uid=,etime=,comm="]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout  # noqa: S603 - fixed words
    for row in (line.split(None, 4) for line in listed.splitlines()):
        number, above, user, elapsed, *program = row
        began, name = now() - _seconds(elapsed), Path(*program).name
        found[int(number)] = Process(int(above), began, name, int(user))
    return found


def _seconds(elapsed: str) -> int:
    """Return the seconds of a time `[[dd-]hh:]mm:ss`."""
    days, _, clock = elapsed.rpartition("-")
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return int(days or 0) * 86_400 + seconds


def above(process: int | None, known: Mapping[int, Process]) -> Iterator[int]:
    """Yield a process and those above it."""
    while process is not None and process in known:
        yield process
        process = known[process].parent


def is_marked(process: int) -> bool:
    """Tell whether a process began with an agent's variables; False on systems without `/proc`."""
    with suppress(OSError):
        began = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        return any(each.startswith(f"{mark}=".encode()) for each in began for mark in MARKS)
    return False


def left_by(
    root: Path,
    since: float,
    client: int | None,
    patience: float,
    clients: Collection[int | None] = (),
) -> list[str] | None:
    """Return the names of the processes of a command that live; None if the system does not tell.

    A process is a command's if it began since, and is the agent's, works in the workspace, or has
    the mark of an agent. Hooks of others, which the agent runs beside ours, have some time to end.

    Args:
        root: The directory of the workspace.
        since: The time before the command, as of `now`.
        client: The process that has reported the command's end.
        patience: The seconds to wait for the end of the processes.
        clients: The processes of our hooks, also for calls beside it.
    """
    if not Path("/proc/self/stat").exists():
        return None
    until = time.monotonic() + patience
    while (names := _left_by(root, since - _TICK, client, clients)) and time.monotonic() < until:
        time.sleep(_PAUSE)
    return names


def _left_by(
    root: Path, since: float, client: int | None, clients: Collection[int | None]
) -> list[str]:
    # Without the first process, which in a container may be the user's.
    known = {
        number: process
        for number, process in processes().items()
        if number > 1 and process.owner == os.geteuid()
    }
    young = {number for number, process in known.items() if process.began >= since}
    # The processes of our hooks are as young as the command; the agent, which runs them, is older.
    own = {os.getpid()}.union(*({*above(each, known)} & young for each in (*clients, client)))
    agent = next((each for each in above(client, known) if each not in young), None)
    return [
        known[each].name
        for each in young
        if own.isdisjoint(tree := {*above(each, known)})
        and (agent in tree or _works_in(each, root) or is_marked(each))
    ]


def _works_in(process: int, root: Path) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/cwd").readlink().is_relative_to(root)
    return False

"""The processes that a command of an agent has left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from toolstile_plugins.hook.person import is_marked

_PAUSE: Final = 0.05
_TICK: Final = 0.02
"""The seconds that a process may seem to begin too early, because the system counts in ticks."""


class _Process(NamedTuple):
    id: int
    parent: int
    began: float
    name: str


def now() -> float:
    """Return the time on the clock that the system uses for the start of processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


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
    known = {process.id: process for process in _processes()}
    young = {process.id for process in known.values() if process.began >= since}
    # The processes of our hooks are as young as the command; the agent, which runs them, is older.
    hooks = [{*_above(each, known)} & young for each in (*clients, client)]
    own = {os.getpid()}.union(*hooks)
    agent = next((each for each in _above(client, known) if each not in young), None)
    names: list[str] = []
    for process in young:
        above = {*_above(process, known)}
        if own.isdisjoint(above) and (agent in above or _works_in(process, root)):
            names.append(known[process].name)
    return names


def _above(process: int | None, known: Mapping[int, _Process]) -> Iterator[int]:
    """Yield a process and those above it."""
    while process is not None and process in known:
        yield process
        process = known[process].parent


def _works_in(process: int, root: Path) -> bool:
    with suppress(OSError):
        if Path(f"/proc/{process}/cwd").readlink().is_relative_to(root):
            return True
    return is_marked(process)


def _processes() -> Iterator[_Process]:
    """Yield the processes of this user that live, in a container without the system's first."""
    ticks = os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            number = int(entry.name)
            if number > 1 and entry.stat().st_uid == os.geteuid():
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                name, _, fields = text.partition("(")[2].rpartition(") ")
                state, parent, *more = fields.split()
                if state not in {"Z", "X"}:
                    yield _Process(number, int(parent), int(more[17]) / ticks, name)

"""The process that holds a lease, and the clock of leases.

On one machine, leases go by `time.monotonic`. Not by the wall clock, because people and programs
set it. Not by the clock since boot, because every lease would end while the machine sleeps. In a
PostgreSQL database, leases go by the clock of the server.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from toolstile_hookspecs import Clock

_PROC: Final = Path("/proc")
_GONE: Final = frozenset({"Z", "X", "x"})
"""The states of processes that have ended and are only not forgotten yet."""


class Process(NamedTuple):
    """A process, distinct from all past and future processes; unknown parts are empty."""

    boot: str  # the id of the machine's boot
    space: str  # the namespace of its number
    number: int
    started: str  # in ticks of the machine

    @classmethod
    def current(cls) -> Process:
        """Return this process."""
        return _current(os.getpid())

    @classmethod
    def read(cls, text: str) -> Process:
        """Return the process of a text that `str` has written."""
        boot, space, number, started = text.split("/")
        return cls(boot, space, int(number), started)

    def __str__(self) -> str:
        return f"{self.boot}/{self.space}/{self.number}/{self.started}"

    def lives(self) -> bool | None:
        """Return whether the process lives; None if this process cannot tell."""
        here = Process.current()
        if self.boot != here.boot:
            return False
        if self.space != here.space:
            return None
        return self == here or _lives(self.number, self.started)


def now_of(store: object, clock: Clock) -> datetime:
    """Return the time by the clock of a store that hosts share, else by the host's."""
    ahead_of = getattr(store, "ahead_of", None)
    now = clock.now()
    return now if ahead_of is None else now + ahead_of(now)


@lru_cache(maxsize=1)
def _current(number: int) -> Process:
    status, space = _status(number), ""
    with suppress(OSError):
        space = str((_PROC / "self/ns/pid").readlink())
    return Process(_boot(), space, number, "" if status is None else status.started)


def _boot() -> str:
    with suppress(OSError):
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    if sys.platform == "darwin":
        import subprocess  # late: few hosts need it

        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
        with suppress(OSError, subprocess.CalledProcessError):
            return subprocess.run(  # noqa: S603 - the system's own, with nothing from outside
                command, capture_output=True, text=True, check=True
            ).stdout.strip()
    return ""


def _lives(number: int, started: str) -> bool | None:
    if os.name != "posix":
        return None
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # another user's process
    status = _status(number)
    if status is None or not started:
        # Because another process may have the number now.
        return None
    return status.state not in _GONE and status.started == started


class _Status(NamedTuple):
    state: str
    started: str


def _status(number: int) -> _Status | None:
    """Return the status of a process, or None if the system does not tell."""
    try:
        text = (_PROC / str(number) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # After the name, which may have any character: first the state, as twentieth the start.
    fields = text.rpartition(")")[2].split()
    return _Status(fields[0], fields[19])

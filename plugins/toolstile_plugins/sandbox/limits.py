"""The limits of commands: of each process, and of all together where a cgroup can be made."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from toolstile_plugins.sandbox.settings import SandboxSettings

_CGROUPS: Final = Path("/sys/fs/cgroup")
_PREFIX: Final = "toolstile-"
_FILES_1: Final = {
    "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    "pids": ("pids.max",),
}
_FILES_2: Final = {"memory": ("memory.max", "memory.swap.max"), "pids": ("pids.max",)}


def limit_process(process: int, limits: SandboxSettings, *, grouped: bool) -> None:
    """Set the limits of a process and of those that it starts, each by itself.

    Args:
        process: Its number.
        limits: The settings.
        grouped: Whether a cgroup limits the memory of all of them together.
    """
    wanted = {
        resource.RLIMIT_CORE: 0,
        # One byte more: a file that the limit cuts off has written too much.
        resource.RLIMIT_FSIZE: limits.disk + 1,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: limits.processes,
    }
    if not grouped:
        wanted[resource.RLIMIT_DATA] = limits.memory
    for number, limit in wanted.items():
        hard = resource.prlimit(process, number)[1]
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.prlimit(process, number, (most, most))


class Cgroup:
    """A cgroup for one command, where this process may make one; else it does nothing.

    Args:
        name: A name that is unique on the machine.
        memory: In bytes.
        processes: How many at once.

    Attributes:
        holds: The controllers that limit the command, of `memory` and `pids`.
    """

    def __init__(self, name: str, memory: int, processes: int) -> None:
        self._memory = memory
        self._processes = processes
        self._made: list[Path] = []
        self.holds: set[str] = set()
        for controller in ("memory", "pids"):
            amount = memory if controller == "memory" else processes
            for parent, files in _places(controller):
                if self._make(parent / f"{_PREFIX}{name}", files[controller], amount):
                    self.holds.add(controller)
                    break

    def add(self, process: int) -> None:
        """Put a process into it, and all that it will start."""
        for directory in self._made:
            (directory / "cgroup.procs").write_text(str(process))

    def notes(self) -> Iterator[str]:
        """Yield what was reached, a sentence each."""
        for directory in self._made:
            with suppress(OSError):
                if _killed(directory):
                    yield (
                        f"A process was killed, as the command had used {_size(self._memory)} "
                        "of memory, all that it may use."
                    )
        for directory in self._made:
            with suppress(OSError, ValueError):
                if int((directory / "pids.events").read_text().split()[1]):
                    yield f"It had {self._processes} processes at once, all that it may have."

    def remove(self) -> None:
        """Remove it; nothing is in it any more."""
        remove_cgroups(self._made)

    def _make(self, directory: Path, files: Iterable[str], amount: int) -> bool:
        try:
            directory.mkdir(exist_ok=True)
        except OSError:
            return False
        self._made = [each for each in self._made if each != directory] + [directory]
        try:
            for number, name in enumerate(files):
                with suppress(*((OSError,) if number else ())):
                    (directory / name).write_text(str(0 if "swap" in name else amount))
        except OSError:
            return False
        return True


def cgroups_of(name: str) -> list[Path]:
    """Return the cgroups of a name that there are."""
    found = [
        parent / f"{_PREFIX}{name}"
        for controller in ("memory", "pids")
        for parent, _ in _places(controller)
    ]
    return [each for each in dict.fromkeys(found) if each.is_dir()]


def remove_cgroups(directories: Iterable[Path]) -> None:
    """Remove cgroups; what a process of has just ended may take a moment."""
    for directory in directories:
        for _ in range(50):
            with suppress(FileNotFoundError):
                try:
                    directory.rmdir()
                except OSError as error:
                    if isinstance(error, FileNotFoundError):
                        break
                    time.sleep(0.01)
                    continue
            break


def _places(controller: str) -> Iterator[tuple[Path, dict[str, tuple[str, ...]]]]:
    """Yield the cgroups in which one might be made, the nearest first."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, own = line.split(":", 2)
        if controller in controllers.split(","):
            root = _CGROUPS / controllers
            yield root / own.lstrip("/"), _FILES_1
        elif not controllers and (_CGROUPS / "cgroup.controllers").exists():
            nearest = _CGROUPS / own.lstrip("/")
            # With processes in it, a cgroup gives its children no limits; its parent may.
            for parent in (nearest, *nearest.parents):
                if parent.is_relative_to(_CGROUPS):
                    yield parent, _FILES_2


def _killed(directory: Path) -> bool:
    for name in ("memory.oom_control", "memory.events"):
        with suppress(FileNotFoundError):
            for line in (directory / name).read_text(encoding="utf-8").splitlines():
                key, _, number = line.partition(" ")
                if key == "oom_kill" and int(number):
                    return True
    return False


def _size(amount: int) -> str:
    # Late: whoever lists tools has no use for the workspace.
    from toolstile_plugins.vfs.tools.models import size_of

    return size_of(amount)

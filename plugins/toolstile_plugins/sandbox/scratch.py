"""Directories and limits of commands, and their removal after a crash."""

from __future__ import annotations

import fcntl
import os
import resource
import secrets
import select
import signal
import stat
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final

from toolstile_hookspecs.support.process import unshared
from toolstile_plugins.sandbox.settings import SandboxSettings

# --- Limits of each process, and of all together where a cgroup can be made


_CGROUPS: Final = Path("/sys/fs/cgroup")
_PREFIX: Final = "toolstile-"
_FILES_1: Final = {
    "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    "pids": ("pids.max",),
}
_FILES_2: Final = {"memory": ("memory.max", "memory.swap.max"), "pids": ("pids.max",)}


def limit_process(process: int, limits: SandboxSettings, *, grouped: bool) -> None:
    """Set the limits of a process and, for each separately, of its children.

    If they are `grouped`, a cgroup limits the memory of all of them together.
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
    """A cgroup for one command, by a unique name; does nothing if this process may not make one."""

    def __init__(self, name: str, memory: int, processes: int) -> None:
        self._memory = memory
        self._processes = processes
        self._made: list[Path] = []
        # The controllers that limit the command, of `memory` and `pids`.
        self.holds: set[str] = set()
        for controller in ("memory", "pids"):
            amount = memory if controller == "memory" else processes
            for parent, files in _cgroups_for(controller):
                if self._make(parent / f"{_PREFIX}{name}", files[controller], amount):
                    self.holds.add(controller)
                    break

    def add(self, process: int) -> None:
        """Put a process and its later children into it."""
        for directory in self._made:
            (directory / "cgroup.procs").write_text(str(process))

    def notes(self) -> Iterator[str]:
        for directory in self._made:
            with suppress(OSError):
                if _killed(directory):
                    # Late, because listing tools does not need the workspace.
                    from toolstile_plugins.vfs.tools.models import size_of

                    yield (
                        f"A process was killed, as the command had used {size_of(self._memory)} "
                        "of memory, all that it may use."
                    )
        for directory in self._made:
            with suppress(OSError, ValueError):
                if int((directory / "pids.events").read_text().split()[1]):
                    yield f"It had {self._processes} processes at once, all that it may have."

    def remove(self) -> None:
        """Remove it after its last process has ended."""
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
    """Return the existing cgroups of a name."""
    found = [
        parent / f"{_PREFIX}{name}"
        for controller in ("memory", "pids")
        for parent, _ in _cgroups_for(controller)
    ]
    return [each for each in dict.fromkeys(found) if each.is_dir()]


def remove_cgroups(directories: Iterable[Path]) -> None:
    """Remove cgroups, with retries, because a process that has just ended may still be in one."""
    for directory in directories:
        for _ in range(50):
            try:
                directory.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)
            else:
                break


def _cgroups_for(controller: str) -> Iterator[tuple[Path, dict[str, tuple[str, ...]]]]:
    """Yield the possible parents of a new cgroup, the nearest first."""
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


# --- Directories for the files that commands write


_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a directory of our own in it
_FOR_LAYERS: Final = frozenset({"btrfs", "ext4", "xfs"})
"""The file systems of disks on which an overlay can lie; it cannot on another overlay."""
_LOCK: Final = ".lock"
_WAIT_MS: Final = 5000

NOTE: Final = "process"
"""The file in the directory `run` with the process whose end ends the command."""


class Scratch:
    """The directory of one command in `base_of`; removed when this object is garbage."""

    def __init__(self, base: Path) -> None:
        lock = None
        while lock is None:
            self.name = secrets.token_hex(8)
            lock = _locked(base / f"{self.name}{_LOCK}", create=True)
        self.path = base / self.name
        self.path.mkdir(0o700)
        weakref.finalize(self, _remove, self.path, lock)

    def note(self, process: int) -> None:
        """Write down the process whose end ends the command, in case this process is killed."""
        text = f"{process} {_start_of(process)}"
        (self.path / "run" / NOTE).write_text(text, encoding="utf-8")

    def directory(self, name: str) -> str:
        """Make a directory in it, and return its path."""
        made = self.path / name
        made.mkdir()
        return str(made)


def base_of(scratch: Path | None, room: int, beside: str | None = None) -> Path:
    """Return the parent of scratch directories, readable by this user alone.

    Without a configured one, it has `room` for the bytes that a command may write, and is on the
    disk of the workspace, the directory `beside`. `OSError`: no directory can be used.
    """
    if scratch is None:
        *disks, last = _places()
        # On the disk of the workspace, because files can be renamed there without copies.
        found = (place for place in disks if _has_room(place, room) and _is_beside(place, beside))
        scratch = next(found, last)
    base = _base_in(scratch)
    with suppress(FileExistsError):
        base.mkdir(0o700, parents=True)
    status = base.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise OSError(f"{base} is not a directory of this user; remove it.")
    if stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
        base.chmod(0o700)
    return base


def _places() -> tuple[Path, ...]:
    """Return the possible places of scratch directories, by default."""
    temporary = Path(tempfile.gettempdir())
    # For users without a home, this place does not exist.
    cache = Path(os.path.expanduser("~/.cache"))  # noqa: PTH111 - raises nothing
    return cache, Path("/var/tmp"), temporary, _MEMORY, temporary  # noqa: S108 - likewise


def _base_in(place: Path) -> Path:
    return place / f"toolstile-sandbox-{os.geteuid()}"


def _is_beside(place: Path, workspace: str | None) -> bool:
    """Return whether a directory is in memory, or on the disk of the workspace."""
    if is_in_memory(place):
        return True
    if workspace is None or place.stat().st_dev != (device := Path(workspace).stat().st_dev):
        return False
    return _file_system(device) in _FOR_LAYERS


def _file_system(device: int) -> str:
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    found = (line.partition(" - ") for line in mounts.splitlines())
    return next((kind.split()[0] for mount, _, kind in found if mount.split()[2] == number), "")


def clear_up(settings: SandboxSettings) -> None:
    """Remove the directories and cgroups of killed hosts."""
    places = _places() if settings.scratch is None else (settings.scratch,)
    for place in dict.fromkeys(places):
        base = _base_in(place)
        with suppress(OSError):
            for lock in base.glob(f"*{_LOCK}"):
                held = _locked(lock, create=False)
                if held is not None:
                    name = lock.name.removesuffix(_LOCK)
                    _end_noted(base / name / "run" / NOTE)
                    remove_cgroups(cgroups_of(name))
                    _remove(base / name, held)


def is_left(path: Path) -> bool:
    """Return whether the process that made a scratch directory has ended."""
    lock = Path(f"{path}{_LOCK}")
    held = _locked(lock, create=False)
    if held is None:
        return not lock.exists()
    held.close()
    return True


def _end_noted(note: Path) -> None:
    """Kill a command that still runs although its host was killed."""
    with suppress(OSError, ValueError):
        number, start = note.read_text(encoding="utf-8").split()
        handle = os.pidfd_open(int(number))
        try:
            if _start_of(int(number)) == start:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                end = select.poll()
                end.register(handle, select.POLLIN)
                end.poll(_WAIT_MS)
        finally:
            os.close(handle)


def _start_of(process: int) -> str:
    """Return the start time of a process, because numbers are used again."""
    text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()[19]


def is_in_memory(path: Path) -> bool:
    """Return whether the files in a directory take memory."""
    return path.is_relative_to(_MEMORY)


def _has_room(directory: Path, room: int) -> bool:
    try:
        found = os.statvfs(directory)
    except OSError:
        return False
    return os.access(directory, os.W_OK) and found.f_bavail * found.f_frsize > 2 * room


def _locked(path: Path, *, create: bool) -> FileIO | None:
    """Return the locked file; None if a living process has its lock, or it does not exist."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    try:
        file = unshared(path, flags)
    except FileNotFoundError:
        return None
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have removed the file before this one locked it.
        if os.fstat(file.fileno()).st_nlink:
            return file
    file.close()
    return None


def _remove(path: Path, lock: FileIO) -> None:
    remove_tree(path)
    with suppress(OSError):
        Path(f"{path}{_LOCK}").unlink()
    lock.close()


def remove_tree(path: Path) -> None:
    """Remove a directory tree of any depth, even without rights of its owner."""
    pending = [path]
    while pending:
        directory = pending.pop()
        with suppress(OSError), os.scandir(directory) as entries:
            pending += [left for entry in list(entries) if (left := _removed(entry, path))]
        if directory != path:
            with suppress(OSError):
                directory.rmdir()
    with suppress(OSError):
        path.rmdir()


def _removed(entry: os.DirEntry[str], path: Path) -> Path | None:
    """Remove a file. Move a directory to the top, so that paths stay short, and return it."""
    with suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, stat.S_IRWXU)  # noqa: PTH101 - of a text
            return Path(entry.path).rename(path / f"removed-{secrets.token_hex(8)}")
        os.unlink(entry.path)  # noqa: PTH108 - likewise
    return None

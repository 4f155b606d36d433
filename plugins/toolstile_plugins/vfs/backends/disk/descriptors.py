"""Descriptors of a workspace on disk: walks that follow no link, the lock, watches, versions."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Callable, Container, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from toolstile_hookspecs.support.process import unshared
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import conflict
from toolstile_plugins.vfs.nodes import Content, Node, Stamp, directory_node, stamp_of, unusable
from toolstile_plugins.vfs.paths import RESERVED

REMEDY: Final = "Choose another path, or let a person change the mode."


def check_changeable(root: int, directory: str, opened: Container[str] = ()) -> None:
    """Raise `OSError` unless a rename from the root can change entries of a directory.

    It may still have to be made. The commit opens the modes of the directories `opened` before.
    """
    for path in (directory, *paths.ancestors(directory), ""):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            with parent_of(root, path) as (parent, name):
                found = os.stat(name or ".", dir_fd=parent, follow_symlinks=False)
                allowed = path in opened or os.access(name or ".", os.W_OK | os.X_OK, dir_fd=parent)
            if not stat.S_ISDIR(found.st_mode):
                continue
            if found.st_dev != os.fstat(root).st_dev:
                raise OSError(
                    f"{path} lies on another file system than the rest of the workspace, so "
                    "nothing in there can be changed here. Choose another path."
                )
            if not allowed:
                raise PermissionError(
                    f"{path or 'The root'} is a directory whose mode forbids to change its "
                    f"entries. {REMEDY}"
                )
            return


# --- Errors of the system


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_TOO_MANY = frozenset({errno.EMFILE, errno.ENFILE})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


def explained(error: OSError, path: str, root: str) -> OSError:
    """Return an error of the system in words for models; of a missing path the error itself."""
    number = error.errno
    if number is None or isinstance(error, FileNotFoundError | NotADirectoryError):
        return error
    if number in _FORBIDDEN:
        what = path or named(error) or "The workspace"
        return PermissionError(
            f"{what} cannot be reached: its mode, or that of a directory above, forbids it. "
            f"{REMEDY}"
        )
    if number == errno.EROFS:
        return PermissionError("The workspace is read-only, so it cannot be changed.")
    if number in _FULL:
        return unusable(
            "The disk that the workspace is on is full, so nothing of this call was kept. Delete "
            "files that are not needed, then retry; else this requires human intervention.",
            f"The disk of {root} is full.",
        )
    if number in _TOO_MANY:
        return OSError("Too many files are open, so the workspace cannot be used now. Retry.")
    where = f" at {path or named(error)}" if path or named(error) else ""
    told = f"cannot be used{where}: {os.strerror(number).lower()}."
    return unusable(
        f"The workspace {told} Retry later; if that does not help, it requires human intervention.",
        f"{root} {told}",
    )


def named(error: OSError) -> str:
    """Return the path that an error names, empty for none."""
    return os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""


_ONLY_DIRECTORIES: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASS: Final = _ONLY_DIRECTORIES | getattr(os, "O_PATH", os.O_RDONLY)
_ENTRY: Final = os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
READ_DIRECTORY: Final = _ONLY_DIRECTORIES | os.O_RDONLY
"""The flags for opening a directory without following a link."""
READ_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""The flags for opening a file, also a FIFO without waiting for its other end."""
CREATE_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags for creating a file where neither a file nor a link exists."""


@contextmanager
def parent_of(root: int, path: str) -> Generator[tuple[int, str]]:
    """Give a descriptor of a path's directory, and the path's last name.

    The descriptor can reach entries of the directory, but not list them. `FileNotFoundError` or
    `NotADirectoryError`, also for a link, says that a directory on the way cannot be entered.
    """
    directory, _, name = path.rpartition("/")
    if not directory:
        yield root, name
        return
    current = root
    try:
        for step in directory.split("/"):
            following = os.open(step, _PASS, dir_fd=current)
            passed, current = current, following
            if passed != root:
                os.close(passed)
        yield current, name
    finally:
        if current != root:
            os.close(current)


@contextmanager
def listable(root: int, path: str) -> Generator[int]:
    """Give a descriptor to list and sync a directory with; raises as `parent_of` does."""
    with parent_of(root, path) as (parent, name):
        descriptor = os.open(name or ".", READ_DIRECTORY, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def look(root: int, path: str) -> os.stat_result | None:
    """Return the status of a path, of a link its own; None if there is nothing."""
    try:
        with parent_of(root, path) as (parent, name):
            return os.stat(name or ".", dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def look_in(directory: int, name: str) -> os.stat_result | None:
    """Return the status of a name in a directory, of a link its own; None if there is nothing."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_file(root: int, path: str) -> tuple[int, os.stat_result]:
    """Return a descriptor to read a regular file with, and its status, or `FileNotFoundError`."""
    with parent_of(root, path) as (parent, name):
        # Checked before, because opening a device can have an effect.
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise FileNotFoundError(path)
        descriptor = os.open(name, READ_FILE, dir_fd=parent)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise FileNotFoundError(path)
    return descriptor, status


def digest_at(root: int, path: str) -> str | None:
    """Return the SHA-256 of a file in hex; None if it cannot be read."""
    try:
        handle, _ = open_file(root, path)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def target_at(root: int, path: str) -> str:
    """Return the text of a link; an empty one if it has become something else."""
    try:
        with parent_of(root, path) as (parent, name):
            return os.readlink(name, dir_fd=parent)
    except OSError:
        return ""


def digest_of(target: str) -> str:
    """Return the SHA-256 of a link's text in hex."""
    return hashlib.sha256(os.fsencode(target)).hexdigest()


def digest_there(root: int, path: str, status: os.stat_result) -> str | None:
    """Return the SHA-256 in hex of a file, or of a link's text, by the status of its path."""
    if stat.S_ISLNK(status.st_mode):
        return digest_of(target_at(root, path))
    return digest_at(root, path)


def change_mode(directory: int, name: str, mode: int) -> None:
    """Set the mode of a file or directory; a link is never followed."""
    try:
        handle, can_read = os.open(name, READ_FILE, dir_fd=directory), True
    except PermissionError:
        # Its owner may change its mode all the same.
        handle, can_read = os.open(name, _ENTRY, dir_fd=directory), False
    try:
        if can_read:
            os.fchmod(handle, mode)
        else:
            os.chmod(f"/proc/self/fd/{handle}", mode)  # noqa: PTH101 - of a descriptor
    finally:
        os.close(handle)


class Hold:
    """The lock of a workspace. No other call commits before its release."""

    def __init__(self, area: int, opened: ExitStack) -> None:
        self.area = area  # descriptor of `.toolstile/`
        # The names of the watch files there; no watch is added under the lock.
        self.watches: list[str] = []
        self._opened = opened

    def mark(self) -> None:
        """Mark all watches, before the first rename of a commit."""
        for name in self.watches:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.area)

    def release(self) -> None:
        self._opened.close()


class WorkspaceLock:
    """The lock file in a workspace's `.toolstile/`, between threads and processes."""

    def __init__(self, root: Callable[[], int]) -> None:
        self._root = root

    def try_hold(self, *, create: bool) -> Hold | None:
        """Take the lock without waiting; `create` makes `.toolstile/` if it does not exist.

        Returns None if another commit has the lock, or `.toolstile/` does not exist.
        """
        area = self._open(create=create)
        if area is None:
            return None
        with ExitStack() as opened:
            opened.callback(os.close, area)
            try:
                lock = unshared("lock", READ_FILE, folder=area)
            except FileNotFoundError:
                lock = unshared("lock", READ_FILE | os.O_CREAT, 0o644, folder=area)
            opened.callback(lock.close)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            # A process may have removed the lock file before this one locked it.
            if os.fstat(lock.fileno()).st_nlink and os.fstat(area).st_nlink:
                return Hold(area, opened.pop_all())
        return None

    def is_held(self) -> bool:
        """Return whether another commit runs."""
        area = self._open(create=False)
        if area is None:
            return False
        os.close(area)
        hold = self.try_hold(create=False)
        if hold is None:
            return True
        hold.release()
        return False

    def _open(self, *, create: bool) -> int | None:
        root = self._root()
        try:
            return os.open(RESERVED, READ_DIRECTORY, dir_fd=root)
        except FileNotFoundError:
            if not create:
                return None
        except NotADirectoryError:
            raise PermissionError(
                f"{RESERVED} in the workspace is not a directory; the workspace needs this name "
                "for itself. Remove it. This requires human intervention."
            ) from None
        with contextlib.suppress(FileExistsError):
            os.mkdir(RESERVED, 0o755, dir_fd=root)
            # Because commits sync only the names in it.
            os.fsync(root)
        area = os.open(RESERVED, READ_DIRECTORY, dir_fd=root)
        # Its own ignore file, because version control must skip it and the user's files stay.
        with contextlib.suppress(FileExistsError):
            handle = os.open(".gitignore", CREATE_FILE, 0o644, dir_fd=area)
            try:
                os.write(handle, b"*\n")
            finally:
                os.close(handle)
        return area


# --- Watches


_TICK_NS: Final = 10_000_000

WATCH_PREFIX: Final = "watch-"
"""The beginning of the names of watch files."""


class WatchFile:
    """A watch, set while no commit has the lock of the workspace.

    Its file is locked as long as its process lives. A commit marks the watch by removing its file:
    that needs no disk space, and a killed process leaves nothing. `began_ns` is the start of the
    watch, by the clock of the file system.
    """

    def __init__(self, area: int) -> None:
        # Because a commit within the same tick of that clock would seem to come after the start.
        while 0 <= time.time_ns() - os.fstat(area).st_mtime_ns < _TICK_NS:
            time.sleep(0.002)
        self._name = f"{WATCH_PREFIX}{secrets.token_hex(8)}"
        self._area = os.dup(area)
        try:
            self._file = unshared(self._name, CREATE_FILE, folder=area)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(self._area)
            raise
        status = os.fstat(self._file.fileno())
        self._inode, self.began_ns = status.st_ino, status.st_ctime_ns
        self._marked: bool | None = None

    @property
    def marked(self) -> bool:
        if self._marked is not None:
            return self._marked
        return os.fstat(self._file.fileno()).st_nlink == 0

    def close(self) -> None:
        if self._marked is not None:
            return
        self._marked = self.marked
        try:
            # In a fork of the process the file is the parent's.
            if not self._marked and os.fstat(self._file.fileno()).st_ino == self._inode:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._name, dir_fd=self._area)
        finally:
            self._file.close()
            os.close(self._area)


def sweep_watches(area: int, names: list[str]) -> None:
    """Remove the watch files of processes that have died."""
    for name in names:
        with (
            contextlib.suppress(FileNotFoundError, BlockingIOError),
            unshared(name, READ_FILE, folder=area) as file,
        ):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=area)


#: A second change within one tick of the file system's clock does not change the times.
_FINE_TICK_NS: Final = 20_000_000
_COARSE_TICK_NS: Final = 2_000_000_000
_SECOND_NS: Final = 1_000_000_000
#: Of a larger file that changed a moment ago, a second change within the tick can be missed.
_MAX_HASHED_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Pin:
    """The state of a file, a link, a FIFO or the like."""

    stamp: Stamp  # identity, size and times
    # The SHA-256 in hex of a link's text, or of a file whose times could miss a change.
    digest: str | None = field(default=None, compare=False)


class OnDisk(Content):
    """The content of a pinned file; reading raises `ConflictError` if the file has changed."""

    __slots__ = ("_root", "path", "pin", "size")

    def __init__(self, root: Callable[[], int], path: str, pin: Pin) -> None:
        self._root = root
        self.path = path
        self.pin = pin
        self.size = pin.stamp.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnDisk) and (self.path, self.pin) == (other.path, other.pin)

    def __hash__(self) -> int:
        return hash((self.path, self.pin.stamp))

    @property
    def digest(self) -> str | None:
        return self.pin.digest

    def read(self) -> bytes:
        with self.open() as stream:
            data = stream.read()
            if stamp_of(os.fstat(stream.fileno())) != self.pin.stamp:
                raise conflict([self.path])
        return data

    def open(self) -> BinaryIO:
        return os.fdopen(self.descriptor(), "rb")

    def descriptor(self) -> int:
        """Return a descriptor to read with; raises as `read` does."""
        try:
            handle, status = open_file(self._root(), self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise conflict([self.path]) from None
        except PermissionError:
            raise PermissionError(
                f"{self.path} cannot be read: its mode forbids it. {REMEDY}"
            ) from None
        if stamp_of(status) != self.pin.stamp:
            os.close(handle)
            raise conflict([self.path])
        return handle


def node_of(root: Callable[[], int], path: str, status: os.stat_result) -> Node:
    """Return the node of a path by its status."""
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        return directory_node(status.st_mtime_ns, stat.S_IMODE(mode))
    stamp = stamp_of(status)
    if stat.S_ISLNK(mode):
        target = target_at(root(), path)
        pin = Pin(stamp, digest_of(target))
        return Node("link", pin, None, status.st_mtime_ns, target=target)
    if not stat.S_ISREG(mode):
        fifo_or_socket = "a FIFO" if stat.S_ISFIFO(mode) else "a socket"
        special = fifo_or_socket if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else "a device"
        return Node("other", Pin(stamp), None, status.st_mtime_ns, special)
    pin = Pin(stamp)
    tick = _FINE_TICK_NS if stamp.mtime_ns % _SECOND_NS else _COARSE_TICK_NS
    age = time.time_ns() - max(stamp.mtime_ns, stamp.ctime_ns)
    if age < tick and stamp.size <= _MAX_HASHED_BYTES:
        # The file changed so lately that the next change could leave its times.
        pin = Pin(stamp, digest_at(root(), path))
    content = OnDisk(root, path, pin)
    return Node("file", pin, content, status.st_mtime_ns, mode=stat.S_IMODE(mode))

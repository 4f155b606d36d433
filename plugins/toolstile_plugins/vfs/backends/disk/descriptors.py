"""Descriptors of a workspace on disk: walks that follow no link, the lock, the watches."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from io import FileIO
from typing import Final

from toolstile_hookspecs.support.process import unshared
from toolstile_plugins.vfs.paths import RESERVED

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
    """Give a descriptor of the directory that a path lies in, and the path's last name.

    The descriptor serves to reach what is in the directory, not to list it.

    Raises:
        FileNotFoundError: When a directory on the way does not exist.
        NotADirectoryError: When something on the way is not a directory, or is a link.
    """
    directory, _, name = path.rpartition("/")
    if not directory:
        yield root, name
        return
    descriptor = _walk(root, directory)
    try:
        yield descriptor, name
    finally:
        os.close(descriptor)


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
    """Return what is at a path, a link being a link; None when nothing is."""
    try:
        with parent_of(root, path) as (parent, name):
            return os.stat(name or ".", dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def look_in(directory: int, name: str) -> os.stat_result | None:
    """Return what is at a name in a directory, a link being a link; None when nothing is."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_file(root: int, path: str) -> tuple[int, os.stat_result]:
    """Return a descriptor to read with, and what it leads to.

    Raises:
        FileNotFoundError: When that is not a regular file.
    """
    with parent_of(root, path) as (parent, name):
        # Looked at before, as opening a device can do something.
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise FileNotFoundError(path)
        descriptor = os.open(name, READ_FILE, dir_fd=parent)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise FileNotFoundError(path)
    return descriptor, status


def digest_at(root: int, path: str) -> str | None:
    """Return the SHA-256 of a file in hex; None when it cannot be read."""
    try:
        handle, _ = open_file(root, path)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def target_at(root: int, path: str) -> str:
    """Return the text of a link; none when it is no link any more."""
    try:
        with parent_of(root, path) as (parent, name):
            return os.readlink(name, dir_fd=parent)
    except OSError:
        return ""


def digest_of(target: str) -> str:
    """Return the SHA-256 of a link's text in hex."""
    return hashlib.sha256(os.fsencode(target)).hexdigest()


def digest_there(root: int, path: str, status: os.stat_result) -> str | None:
    """Return the SHA-256 in hex of what a look at a path has found, a link's text or a file."""
    if stat.S_ISLNK(status.st_mode):
        return digest_of(target_at(root, path))
    return digest_at(root, path)


def change_mode(directory: int, name: str, mode: int) -> None:
    """Set the mode of a file or directory, never of what a link leads to."""
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


def sync_entry(directory: int, name: str) -> None:
    """Make sure that a file or directory itself is on the disk, with its mode."""
    handle = os.open(name, READ_FILE, dir_fd=directory)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _walk(root: int, directory: str) -> int:
    current = root
    for name in directory.split("/"):
        try:
            following = os.open(name, _PASS, dir_fd=current)
        finally:
            if current != root:
                os.close(current)
        current = following
    return current


class Hold:
    """The lock on a workspace, held; nobody else commits until it is released.

    Attributes:
        area: Descriptor of `.toolstile/`.
        watches: The names of the watch files found there; held, there come no others.
    """

    def __init__(self, area: int, opened: ExitStack) -> None:
        self.area = area
        self.watches: list[str] = []
        self._opened = opened

    def mark(self) -> None:
        """Tell all watches of a commit, before its first rename."""
        for name in self.watches:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.area)

    def release(self) -> None:
        """Give the lock back; a second time does nothing."""
        self._opened.close()


class WorkspaceLock:
    """The lock in a workspace's `.toolstile/`, which holds between threads and processes."""

    def __init__(self, root: Callable[[], int]) -> None:
        self._root = root

    def try_hold(self, *, create: bool) -> Hold | None:
        """Take the lock without waiting.

        Args:
            create: Whether to make `.toolstile/` when there is none.

        Returns:
            The lock; None when another commit has it, or there is no `.toolstile/`.
        """
        area = self._open(create=create)
        if area is None:
            return None
        with ExitStack() as opened:
            opened.callback(os.close, area)
            lock = self._open_lock(area)
            opened.callback(lock.close)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            # Somebody may have removed the lock that was just taken.
            if os.fstat(lock.fileno()).st_nlink and os.fstat(area).st_nlink:
                return Hold(area, opened.pop_all())
        return None

    def is_held(self) -> bool:
        """Tell whether another commit is under way."""
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
        area = os.open(RESERVED, READ_DIRECTORY, dir_fd=root)
        # Version control is to leave it alone, without the user's own files being touched.
        with contextlib.suppress(FileExistsError):
            handle = os.open(".gitignore", CREATE_FILE, 0o644, dir_fd=area)
            try:
                os.write(handle, b"*\n")
            finally:
                os.close(handle)
        return area

    def _open_lock(self, area: int) -> FileIO:
        try:
            return unshared("lock", READ_FILE, folder=area)
        except FileNotFoundError:
            return unshared("lock", READ_FILE | os.O_CREAT, 0o644, folder=area)


# --- Watches


_TICK_NS: Final = 10_000_000

WATCH_PREFIX: Final = "watch-"
"""The beginning of the names of watch files."""


class WatchFile:
    """A watch, set while no commit holds the workspace.

    Its file is locked as long as its process lives. Gone, it is marked: that needs no space, and
    leaves nothing of a process that was killed.

    Args:
        area: Descriptor of `.toolstile/`.

    Attributes:
        began_ns: The time it was set, by the clock of the file system; what has changed there
            before is older.
    """

    def __init__(self, area: int) -> None:
        # A commit within the same tick of that clock would pass for one after it.
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
        """True once another call has committed."""
        if self._marked is not None:
            return self._marked
        return os.fstat(self._file.fileno()).st_nlink == 0

    def close(self) -> None:
        """End the watch; a second time does nothing."""
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

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
from io import FileIO
from typing import BinaryIO, Final, NamedTuple

from toolstile_hookspecs.support.process import unshared
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import conflict
from toolstile_plugins.vfs.nodes import Content, Node, directory_node, unusable
from toolstile_plugins.vfs.paths import RESERVED

REMEDY: Final = "Choose another path, or let a person change the mode."


def check_changeable(root: int, directory: str, opened: Container[str] = ()) -> None:
    """Raise `OSError` unless entries of a directory can be changed by renaming from the root.

    Args:
        root: The descriptor of the root.
        directory: The directory, or one that is to be made.
        opened: The directories whose modes will have been changed so that they let it be.
    """
    for path in (directory, *paths.ancestors(directory), ""):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            with parent_of(root, path) as (parent, name):
                found = os.stat(name or ".", dir_fd=parent, follow_symlinks=False)
                allowed = path in opened or os.access(name or ".", os.W_OK | os.X_OK, dir_fd=parent)
            if stat.S_ISDIR(found.st_mode):
                _check(path, on_root=found.st_dev == os.fstat(root).st_dev, allowed=allowed)
                return


def unreadable(path: str) -> PermissionError:
    """Return the error that says that a file may not be read."""
    return PermissionError(f"{path} cannot be read: its mode forbids it. {REMEDY}")


def _check(path: str, *, on_root: bool, allowed: bool) -> None:
    if not on_root:
        raise OSError(
            f"{path} lies on another file system than the rest of the workspace, so nothing in "
            "there can be changed here. Choose another path."
        )
    if not allowed:
        raise PermissionError(
            f"{path or 'The root'} is a directory whose mode forbids to change what it holds. "
            f"{REMEDY}"
        )


# --- Errors of the system


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_TOO_MANY = frozenset({errno.EMFILE, errno.ENFILE})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


def explained(error: OSError, path: str, root: str) -> OSError:
    """Return an error of the same type whose text says what it means, or the error itself."""
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


def unopened(error: OSError, root: str) -> OSError:
    """Return the error that says why a directory cannot be a workspace."""
    reason = os.strerror(error.errno) if error.errno is not None else str(error)
    return type(error)(
        f"{root} cannot be a workspace: {reason}. Give a directory that exists and can be read."
    )


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
            # Commits sync only the names within it.
            os.fsync(root)
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


#: A second change within one tick of the file system's clock leaves the times as they are.
_FINE_TICK_NS: Final = 20_000_000
_COARSE_TICK_NS: Final = 2_000_000_000
_SECOND_NS: Final = 1_000_000_000
#: Of a larger file that changed a moment ago, a second change within the tick can be missed.
_MAX_HASHED_BYTES: Final = 16 * 1024 * 1024


class Stamp(NamedTuple):
    """Identity, size and times of a file."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class Pin:
    """The state of a file, or of what is neither file nor directory.

    Args:
        stamp: Identity, size and times.
        digest: The SHA-256 in hex, where the times alone could miss a change; of a link's text.
    """

    stamp: Stamp
    digest: str | None = field(default=None, compare=False)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return identity, size and times."""
    return Stamp(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def is_fresh(stamp: Stamp) -> bool:
    """Tell whether a file changed so lately that its times could stay at the next change."""
    tick = _FINE_TICK_NS if stamp.mtime_ns % _SECOND_NS else _COARSE_TICK_NS
    age = time.time_ns() - max(stamp.mtime_ns, stamp.ctime_ns)
    return age < tick and stamp.size <= _MAX_HASHED_BYTES


class OnDisk(Content):
    """The content of a file as it was when it was pinned."""

    __slots__ = ("_root", "path", "pin", "size")

    def __init__(self, root: Callable[[], int], path: str, pin: Pin) -> None:
        self._root = root
        self.path = path
        self.pin = pin
        self.size = pin.stamp.size

    def __eq__(self, other: object) -> bool:
        """Tell whether it is the same state of the same file."""
        return isinstance(other, OnDisk) and (self.path, self.pin) == (other.path, other.pin)

    def __hash__(self) -> int:
        return hash((self.path, self.pin.stamp))

    @property
    def digest(self) -> str | None:
        """The SHA-256 in hex, where it is known without reading."""
        return self.pin.digest

    def read(self) -> bytes:
        """Return all of it; raises `ConflictError` when it has changed since it was pinned."""
        with self.open() as stream:
            data = stream.read()
            if stamp_of(os.fstat(stream.fileno())) != self.pin.stamp:
                raise conflict([self.path])
        return data

    def open(self) -> BinaryIO:
        """Return a stream; raises as `read` does."""
        return os.fdopen(self.descriptor(), "rb")

    def descriptor(self) -> int:
        """Return a descriptor to read with; raises as `read` does."""
        try:
            handle, status = open_file(self._root(), self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise conflict([self.path]) from None
        except PermissionError:
            raise unreadable(self.path) from None
        if stamp_of(status) != self.pin.stamp:
            os.close(handle)
            raise conflict([self.path])
        return handle


def node_of(root: Callable[[], int], path: str, status: os.stat_result) -> Node:
    """Return what is at a path."""
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        return directory_node(status.st_mtime_ns, stat.S_IMODE(mode))
    stamp = stamp_of(status)
    if stat.S_ISLNK(mode):
        target = target_at(root(), path)
        pin = Pin(stamp, digest_of(target))
        return Node("link", pin, None, status.st_mtime_ns, target=target)
    if not stat.S_ISREG(mode):
        return Node("other", Pin(stamp), None, status.st_mtime_ns, _special(mode))
    pin = Pin(stamp)
    if is_fresh(stamp):
        pin = Pin(stamp, digest_at(root(), path))
    content = OnDisk(root, path, pin)
    return Node("file", pin, content, status.st_mtime_ns, mode=stat.S_IMODE(mode))


def _special(mode: int) -> str:
    kinds = (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in kinds if test(mode)), "a device")

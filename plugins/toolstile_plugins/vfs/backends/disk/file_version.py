"""The state of a file on disk: identity, size, times, and a digest where those are not enough."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NamedTuple

from toolstile_plugins.vfs.backends.disk import descriptors
from toolstile_plugins.vfs.backends.disk.os_errors import unreadable
from toolstile_plugins.vfs.nodes import Content, Node, directory_node
from toolstile_plugins.vfs.write_set import conflict

#: A second change within one tick of the file system's clock leaves the times as they are.
_TICK_NS: Final = 20_000_000
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
    tick = _TICK_NS if stamp.mtime_ns % _SECOND_NS else _COARSE_TICK_NS
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
            handle, status = descriptors.open_file(self._root(), self.path)
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
        target = descriptors.target_at(root(), path)
        pin = Pin(stamp, descriptors.digest_of(target))
        return Node("link", pin, None, status.st_mtime_ns, target=target)
    if not stat.S_ISREG(mode):
        return Node("other", Pin(stamp), None, status.st_mtime_ns, _special(mode))
    pin = Pin(stamp)
    if is_fresh(stamp):
        pin = Pin(stamp, descriptors.digest_at(root(), path))
    content = OnDisk(root, path, pin)
    return Node("file", pin, content, status.st_mtime_ns, mode=stat.S_IMODE(mode))


def _special(mode: int) -> str:
    kinds = (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in kinds if test(mode)), "a device")

"""Nodes of a tree: directories, links, and files with their content, also from outside of it."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, NamedTuple, Protocol, cast

from toolstile_hookspecs import ConflictError, FileStat

if TYPE_CHECKING:
    from _typeshed import SupportsWrite
    from typing_extensions import Buffer

Kind = Literal["file", "directory", "link", "other"]

DIRECTORY_VERSION: Final = "directory"
"""The version of every directory, because each entry has its own version."""

PERMISSIONS: Final = 0o777
"""The mode bits that can be set: not set-user-ID and the like."""

_WRITE_BITS: Final = 0o222
_CHANGE_BITS: Final = 0o300
_SECOND_NS: Final = 1_000_000_000
_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024


def unusable(text: str, for_operator: str) -> OSError:
    """Return an error of a disk or a source. The model reads only `text`."""
    error = OSError(text)
    vars(error)["for_operator"] = for_operator
    return error


class Content(Protocol):
    """The content of a file, in memory or elsewhere; its `size` is in bytes."""

    __slots__ = ()

    size: int

    @property
    def digest(self) -> str | None:
        """The SHA-256 in hex if it is known without reading."""
        return None

    def read(self) -> bytes:
        with self.open() as stream:
            return stream.read()

    def open(self) -> BinaryIO:
        """Return a new stream; the caller closes it."""
        return io.BytesIO(self.read())


@dataclass(frozen=True, slots=True)
class Node:
    """A state of a path."""

    kind: Kind  # `file`, `directory`, `link`, or `other` for FIFOs, devices and the like
    version: object  # two nodes of one path with equal versions are the same state of it
    content: Content | None = None
    # When it last changed; None if that is unknown. A number is nanoseconds since 1970, and the
    # file keeps that time.
    modified: datetime | int | None = None
    special: str = ""  # the name of another kind, for messages
    mode: int | None = None  # its permissions; None for the usual ones
    target: str = ""  # the text of a link, as `os.readlink` gives it
    keeps: bool = False  # whether a directory stays with its entries and only its mode changes

    @property
    def readonly(self) -> bool:
        return self.mode is not None and not self.mode & _WRITE_BITS

    @property
    def is_open(self) -> bool:
        """True if its mode lets its owner change its entries."""
        return self.mode is None or self.mode & _CHANGE_BITS == _CHANGE_BITS

    def stat(self, path: str, *, readonly: bool) -> FileStat:
        """Return the description of the node at a path."""
        size, digest = 0, None
        if self.content is not None:
            size, digest = self.content.size, self.content.digest
        modified = self.modified
        if isinstance(modified, int):
            modified = moment(modified / _SECOND_NS)
        mode = None if self.mode is None else self.mode & PERMISSIONS
        target = self.target if self.kind == "link" else None
        readonly = readonly or self.readonly
        return FileStat(path, self.kind, size, modified, readonly, digest, mode, target)


def file_node(
    content: Content, modified: datetime | int | None = None, mode: int | None = None
) -> Node:
    """Return a new state of a file."""
    return Node("file", object(), content, modified, mode=mode)


def directory_node(modified: datetime | int | None = None, mode: int | None = None) -> Node:
    """Return a directory."""
    return Node("directory", DIRECTORY_VERSION, None, modified, mode=mode)


def link_node(target: str, modified: datetime | int | None = None) -> Node:
    """Return a new symbolic link."""
    return Node("link", object(), None, modified, target=target)


def escaped(target: str) -> str:
    r"""Return a link's text for people and models, with control characters escaped.

    Example:
        >>> print(escaped("src/main.py"), escaped("a\nb"))
        src/main.py a\nb
    """
    return target if target.isprintable() and "\\" not in target else ascii(target)[1:-1]


def shown_target(target: str) -> str:
    """Return a link's target for models, without an absolute path of this machine."""
    return "an absolute path" if target.startswith("/") else escaped(target)


def version_of(node: Node | None) -> object | None:
    """Return a node's version; None for absence."""
    return None if node is None else node.version


def moment(seconds: float) -> datetime | None:
    """Return a time given in seconds since 1970; None if it is out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


class InMemory(Content):
    """Content in memory."""

    __slots__ = ("_data", "_digest", "size")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._digest: str | None = None
        self.size = len(data)

    @property
    def digest(self) -> str:
        if self._digest is None:
            self._digest = hashlib.sha256(self._data).hexdigest()
        return self._digest

    def read(self) -> bytes:
        return self._data


class Spooled(Content):
    """Large content, in a temporary file that lives as long as this object."""

    __slots__ = ("_path", "size")

    def __init__(self, source: BinaryIO, size: int) -> None:
        handle, name = tempfile.mkstemp(prefix="toolstile-")
        self._path = Path(name)
        self.size = size
        with os.fdopen(handle, "wb") as stream:
            copy_stream(source, stream)

    def open(self) -> BinaryIO:
        return self._path.open("rb")

    def __del__(self) -> None:
        with suppress(OSError):
            self._path.unlink()


def copy_stream(source: BinaryIO, target: SupportsWrite[bytes]) -> None:
    """Copy the rest of a stream to another stream."""
    shutil.copyfileobj(source, target, 1 << 20)


class WriteStream(io.RawIOBase):
    """Collects written bytes and passes them on at the close.

    A `with` statement that an exception leaves drops them.
    """

    def __init__(self, done: Callable[[Content], None]) -> None:
        self._done: Callable[[Content], None] | None = done
        self._buffer = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by `close`
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        if self.closed:
            raise ValueError("The stream is closed, so nothing more can be written to it.")
        view = memoryview(data).cast("B")
        self._buffer.write(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        """Pass the written bytes on as content."""
        if self.closed:
            return
        done, self._done = self._done, None
        try:
            if done is not None:
                self._buffer.seek(0)
                if self._size <= _IN_MEMORY_BYTES:
                    done(InMemory(self._buffer.read()))
                else:
                    done(Spooled(cast("BinaryIO", self._buffer), self._size))
        finally:
            self._buffer.close()
            super().close()

    def then(self, action: Callable[[], None]) -> None:
        """Call a function after the content was passed on."""
        done = self._done
        if done is not None:

            def both(content: Content) -> None:
                done(content)
                action()

            self._done = both

    def discard(self) -> None:
        """Close it and drop the written bytes."""
        self._done = None
        self.close()

    def __exit__(self, type_: object, error: BaseException | None, traceback: object) -> None:
        if type_ is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        # Collected without a close, so the content may be incomplete.
        if not self.closed:
            self.discard()


def kept(content: Content) -> Content:
    """Return content that stays readable: read now, unless it is in memory; raises `OSError`."""
    if isinstance(content, (InMemory, Spooled)):
        return content
    read: list[Content] = []
    with content.open() as source, WriteStream(read.append) as stream:
        copy_stream(source, stream)
    return read[0]


def at_hand(node: Node | None) -> Node | None:
    """Return a node whose content stays readable; raises `OSError`."""
    if node is None or node.content is None:
        return node
    return replace(node, content=kept(node.content))


_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Stamp(NamedTuple):
    """Identity, size and times of a file."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


def stamp_of(status: os.stat_result) -> Stamp:
    """Return identity, size and times."""
    return Stamp(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


class TakenFile(Content):
    """The content of a file outside of the workspace, until a commit takes the file.

    The file must not change any more. The `keeper`, such as the owner of its directory, lives as
    long as this content. Raises `OSError` if the source is not a regular file.
    """

    __slots__ = ("_identity", "_keeper", "size", "source")

    def __init__(self, source: str | os.PathLike[str], keeper: object = None) -> None:
        self.source = os.fspath(source)
        self._keeper = keeper
        status = os.lstat(self.source)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{self.source} is not a file, so its content cannot be taken.")
        self._identity = stamp_of(status)
        self.size = status.st_size

    def open(self) -> BinaryIO:
        return os.fdopen(self.descriptor(), "rb")

    def descriptor(self) -> int:
        """Return a descriptor to read with; raises `ConflictError` if the file has changed."""
        with suppress(FileNotFoundError, NotADirectoryError):
            handle = os.open(self.source, _READ)
            try:
                self.check(os.fstat(handle))
            except BaseException:
                os.close(handle)
                raise
            return handle
        raise self._changed()

    def check(self, status: os.stat_result, *, renamed: bool = False) -> None:
        """Raise `ConflictError` unless the status is that of the unchanged file."""
        # A rename changes the last time, but not the content.
        end = -1 if renamed else None
        if stamp_of(status)[:end] != self._identity[:end]:
            raise self._changed()

    def _changed(self) -> ConflictError:
        name = os.path.basename(self.source)  # noqa: PTH119 - of a text
        return ConflictError(
            f"{name!a} changed after the program that made it had ended; nothing of this call was "
            "kept. Retry."
        )


_DIRECTORY: Final = ".outputs"  # no real directory, unless a call makes one
_MOST_BYTES: Final = 32 * 1024 * 1024
_NAME_CHARACTERS: Final = 16
_PATH: Final = re.compile(rf"{re.escape(_DIRECTORY)}/[0-9a-f]{{{_NAME_CHARACTERS}}}(\.[^/]*)?")
_READONLY: Final = 0o444


def is_attached(path: str) -> bool:
    """Return whether a path has the form of an attachment's path."""
    return _PATH.fullmatch(path) is not None


class Attachments:
    """The attachments of one workspace: the newest that fit, in memory only.

    Neither another user nor a crash finds them there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] = {}

    def add(self, data: bytes, suffix: str) -> str:
        """Add content and return its path, which cannot be guessed without the content."""
        content = InMemory(data)
        path = f"{_DIRECTORY}/{content.digest[:_NAME_CHARACTERS]}{suffix}"
        node = file_node(content, datetime.now(UTC), _READONLY)
        with self._lock:
            self._nodes.pop(path, None)
            room = _MOST_BYTES - content.size
            for known, kept_node in reversed(list(self._nodes.items())):
                room -= kept_node.content.size if kept_node.content is not None else 0
                if room < 0:
                    del self._nodes[known]
            self._nodes[path] = node
        return path

    def get(self, path: str) -> Node | None:
        return self._nodes.get(path)

    def refusal(self, path: str) -> str | None:
        """Return the reason why a path cannot be changed if it is an attachment's."""
        if path not in self._nodes:
            return None
        return f"{path} lies beside the workspace and can only be read. A copy can be changed."

"""Nodes: directories, and files with their content."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, Final, Literal, Protocol

from toolstile_hookspecs import FileStat

Kind = Literal["file", "directory", "other"]

DIRECTORY_VERSION: Final = "directory"
"""The version of every directory: what it holds has versions of its own."""

_WRITE_BITS: Final = 0o222


class Content(Protocol):
    """The content of a file: at hand, or read when it is asked for."""

    @property
    def size(self) -> int:
        """The size in bytes."""
        ...

    @property
    def digest(self) -> str | None:
        """The SHA-256 in hex, where it is known without reading."""
        ...

    def read(self) -> bytes:
        """Return all of it."""
        ...

    def open(self) -> BinaryIO:
        """Return a stream from its beginning, for the caller to close."""
        ...


@dataclass(frozen=True, slots=True)
class Node:
    """The kind of a node.

    Args:
        kind: `file`, `directory`, or `other` for what is never opened.
        version: Two nodes of one path with equal versions are the same state of it.
        content: A file's content.
        modified: When it last changed; None where nobody knows.
        special: For what is neither file nor directory, what it is, for messages.
        mode: The permissions it has or is to have; None for the usual ones.
    """

    kind: Kind
    version: object
    content: Content | None = None
    modified: datetime | None = None
    special: str = ""
    mode: int | None = None

    @property
    def readonly(self) -> bool:
        """True when its mode lets nobody write it."""
        return self.mode is not None and not self.mode & _WRITE_BITS

    def stat(self, path: str, *, readonly: bool) -> FileStat:
        """Return what is known of it."""
        size, digest = 0, None
        if self.content is not None:
            size, digest = self.content.size, self.content.digest
        return FileStat(path, self.kind, size, self.modified, readonly or self.readonly, digest)


def file_node(content: Content, modified: datetime | None = None, mode: int | None = None) -> Node:
    """Return a new state of a file."""
    return Node("file", object(), content, modified, mode=mode)


def directory_node(modified: datetime | None = None, mode: int | None = None) -> Node:
    """Return a directory."""
    return Node("directory", DIRECTORY_VERSION, None, modified, mode=mode)


def version_of(node: Node | None) -> object | None:
    """Return a node's version; None for absence."""
    return None if node is None else node.version


def moment(seconds: float) -> datetime | None:
    """Return a time given in seconds since 1970; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


class InMemory:
    """Content held in memory."""

    __slots__ = ("_data", "_digest")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._digest: str | None = None

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self._data)

    @property
    def digest(self) -> str:
        """The SHA-256 in hex."""
        if self._digest is None:
            self._digest = hashlib.sha256(self._data).hexdigest()
        return self._digest

    def read(self) -> bytes:
        """Return all of it."""
        return self._data

    def open(self) -> BinaryIO:
        """Return a stream from its beginning."""
        return io.BytesIO(self._data)


class Spooled:
    """Content too large for memory, in a temporary file.

    Args:
        reopen: Opens the temporary file anew, from its beginning.
        size: In bytes.
    """

    __slots__ = ("_reopen", "_size")

    def __init__(self, reopen: Callable[[], BinaryIO], size: int) -> None:
        self._reopen = reopen
        self._size = size

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self._size

    @property
    def digest(self) -> None:
        """Not known without reading."""
        return

    def read(self) -> bytes:
        """Return all of it."""
        with self._reopen() as stream:
            return stream.read()

    def open(self) -> BinaryIO:
        """Return a stream from its beginning."""
        return self._reopen()

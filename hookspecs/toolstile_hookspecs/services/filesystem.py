"""The workspace as handlers see it, whatever it lies on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class FileStat:
    """The facts about a path.

    Args:
        path: Relative to the root, with `/`.
        kind: `file`, `directory`, `link`, or `other` for what is none of them and never opened.
        size: In bytes; 0 for everything but files.
        modified: When it last changed, aware, UTC; None where that is not known.
        readonly: Whether it can be changed here.
        digest: SHA-256 of the content in hex, where it is known without reading.
        mode: The permission bits, such as 0o755; None where they are not known.
        target: The text of a symbolic link, as `os.readlink` gives it.
    """

    path: str
    kind: Literal["file", "directory", "link", "other"]
    size: int = 0
    modified: datetime | None = None
    readonly: bool = False
    digest: str | None = None
    mode: int | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class FileMatch:
    """One line that a search found.

    Args:
        path: The file.
        line: Its number, from 1.
        text: The line without its newline.
    """

    path: str
    line: int
    text: str


@runtime_checkable
class Filesystem(Protocol):
    """A tree of files. Paths are relative, with `/`; `/workspace/` is an alias of the root.

    A symbolic link is an entry of its own: nothing is read or written through it, wherever it
    leads. It can be copied, moved and deleted.

    Failures are the built-in ones: `FileNotFoundError`, `FileExistsError`,
    `IsADirectoryError`, `NotADirectoryError`, `PermissionError` for what is read-only or
    outside, `ValueError` for a path that cannot be one, `OSError` for a directory that is
    not empty. `toolstile_hookspecs.testing.FilesystemContract` says the rest, as tests.
    """

    def read(self, path: str) -> str:
        """Return a text file's content, newlines as they are; raises for binary ones.

        Written back it is the same file, byte for byte, whatever its encoding is.
        """
        ...

    def read_bytes(self, path: str) -> bytes:
        """Return a file's content."""
        ...

    def write(self, path: str, content: str) -> None:
        """Write a text file, creating it and its directories.

        An existing one keeps its mode, and an encoding other than UTF-8 if it can be read.
        """

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file, creating it and its directories."""

    def open(self, path: str, mode: Literal["rb", "wb", "ab"] = "rb") -> BinaryIO:
        """Open a file as a stream; what is written counts when the stream is closed."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether there is anything: a file, a directory, or a link wherever it leads."""
        ...

    def stat(self, path: str) -> FileStat:
        """Return what is known of a path, of a link itself."""
        ...

    def is_readonly(self, path: str) -> bool:
        """Tell whether the path cannot be changed here."""
        ...

    def list(self, path: str = "") -> Sequence[FileStat]:
        """Return what a directory holds, by name."""
        ...

    def mkdir(self, path: str) -> None:
        """Make a directory and those above it; one that is there already is fine."""

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link at a path that is free, and the directories above it.

        Args:
            path: The place of the link.
            target: Any text; it is kept as it is, and leads only programs somewhere.
        """

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits of a file or directory; set-user-ID and the like are dropped."""

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file, a link, an empty directory, or with `recursive` a whole one."""

    def copy(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Copy a file or a directory to a path that is free, or with `overwrite` file onto file.

        `target` is the whole new path, never a directory to put it into.
        """

    def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Move a file or a directory, as `copy` does."""

    def glob(self, pattern: str, path: str = "") -> Iterator[FileStat]:
        """Yield what matches: `*` stays within a segment, `**` crosses segments."""
        ...

    def search(
        self, pattern: str, path: str = "", *, glob: str | None = None, limit: int | None = None
    ) -> Iterator[FileMatch]:
        """Yield the lines of text files that a regular expression matches, in time that is bounded.

        Args:
            pattern: The expression.
            path: The file or directory to search.
            glob: Only files whose path beneath `path` matches.
            limit: How many lines at most.
        """
        ...

    def exclusive_path(self) -> AbstractContextManager[str]:
        """Give the real directory, alone, for starting programs; not rolled back.

        It may wait for others to leave, so an async handler enters it on a thread.

        Raises:
            OSError: Without a real directory.
            StateError: When this call has changed files, which are not there yet.
            ResourceBusyError: In a dry run, and before a person has approved the changes.
        """
        ...


@runtime_checkable
class SupportsNotes(Protocol):
    """An optional part of a `Filesystem`: notes about the answers it gave."""

    def notes(self) -> Sequence[str]:
        """Return what has to be known of everything this call was given, a sentence each.

        Such as what a listing or search left out, and why; file tools add it to their answers.
        """
        ...


@runtime_checkable
class SupportsDirectories(Protocol):
    """An optional part of a `Filesystem`: the directories of this machine that it shows.

    What tools must not reach, such as keys, is refused there.
    """

    @property
    def directories(self) -> Sequence[str]:
        """The directories, also those of which it shows a part, or which cannot be changed."""
        ...

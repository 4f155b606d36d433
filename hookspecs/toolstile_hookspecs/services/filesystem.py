"""The workspace as handlers see it, on any storage."""

# pyright: reportReturnType=false

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
        path: The path relative to the root, with `/`.
        kind: `file`, `directory`, `link`, or `other` for any other entry, which is never opened.
        size: The size in bytes; 0 for everything but files.
        modified: The time of the last change, aware, UTC; None if unknown.
        readonly: Whether the path cannot be changed here.
        digest: SHA-256 of the content in hex, if known without reading.
        mode: The permission bits, such as 0o755; None if unknown.
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
        line: The number of the line, from 1.
        text: The line without its newline.
    """

    path: str
    line: int
    text: str


@runtime_checkable
class Filesystem(Protocol):
    """A tree of files. Paths are relative, with `/`; `/workspace/` is an alias of the root.

    A symbolic link is an entry: it can be copied, moved and deleted, and nothing is read or
    written through it.

    Failures are the built-in ones: `FileNotFoundError`, `FileExistsError`,
    `IsADirectoryError`, `NotADirectoryError`, `PermissionError` for a path that is read-only or
    outside, `ValueError` for an impossible path, `OSError` for a directory that is not empty.
    `toolstile_hookspecs.testing.FilesystemContract` has the rest, as tests.
    """

    def read(self, path: str) -> str:
        """Return a text file's content with its newlines; raises `ValueError` for a binary file.

        Writing the content back gives the same bytes in any encoding.
        """

    def read_bytes(self, path: str) -> bytes:
        """Return a file's content."""

    def write(self, path: str, content: str) -> None:
        """Write a text file, creating it and its directories.

        An existing file keeps its mode, and an encoding other than UTF-8 if it can be read.
        """

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file, creating it and its directories."""

    def open(self, path: str, mode: Literal["rb", "wb", "ab"] = "rb") -> BinaryIO:
        """Open a file as a stream; the file changes when the stream is closed."""

    def exists(self, path: str) -> bool:
        """Tell whether the path is a file, a directory or a link, to any target."""

    def stat(self, path: str) -> FileStat:
        """Return the facts about a path; for a link, about the link."""

    def is_readonly(self, path: str) -> bool:
        """Tell whether the path cannot be changed here."""

    def list(self, path: str = "") -> Sequence[FileStat]:
        """Return the entries of a directory, sorted by name."""

    def mkdir(self, path: str) -> None:
        """Make a directory and its parents, unless it exists."""

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link at a free path, and the directories above it.

        Args:
            path: The place of the link.
            target: Any text, kept unchanged; only programs follow it.
        """

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits of a file or directory, without set-user-ID and the like."""

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file, a link, an empty directory or, with `recursive`, a whole directory."""

    def copy(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Copy a file or a directory to a free path, or with `overwrite` a file onto a file.

        `target` is the whole new path, never a directory for the copy.
        """

    def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Move a file or a directory, as `copy` does."""

    def glob(self, pattern: str, path: str = "") -> Iterator[FileStat]:
        """Yield the matches: `*` stays within a segment, `**` crosses segments."""

    def search(
        self, pattern: str, path: str = "", *, glob: str | None = None, limit: int | None = None
    ) -> Iterator[FileMatch]:
        """Yield the lines of text files that a regular expression matches, in bounded time.

        Args:
            pattern: The expression.
            path: The file or directory to search.
            glob: Only files whose path beneath `path` matches.
            limit: The maximum number of lines.
        """

    def exclusive_path(self) -> AbstractContextManager[str]:
        """Give the real directory to this call alone, to run programs; changes are not rolled back.

        It may wait for other calls, so an async handler enters it on a thread.

        Raises:
            OSError: Without a real directory.
            StateError: If this call has changed files, which the directory does not have yet.
            ResourceBusyError: In a dry run, and before a person has approved the changes.
        """


@runtime_checkable
class SupportsNotes(Protocol):
    """An optional part of a `Filesystem`: notes about its answers."""

    def notes(self) -> Sequence[str]:
        """Return notes about the answers to this call, a sentence each, which file tools pass on.

        Such as the files that a listing or search left out, and why.
        """


@runtime_checkable
class SupportsDirectories(Protocol):
    """An optional part of a `Filesystem`: the directories of this machine that it shows.

    The host refuses to keep anything there that tools must not reach, such as keys.
    """

    @property
    def directories(self) -> Sequence[str]:
        """The directories, also if shown in part or read-only."""

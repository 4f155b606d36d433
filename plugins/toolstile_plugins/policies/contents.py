"""What files hold, by its hash: those of the workspace, or of a directory on disk."""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from toolstile_hookspecs import Filesystem

WORKSPACE: Final = "/workspace"
CHUNK: Final = 1 << 20
LARGE: Final = 64 * 1024 * 1024
"""Bytes up to which a file is read to be known; it would take too long for a larger one."""
NO_SUCH_FILE: Final = (FileNotFoundError, NotADirectoryError)
"""What is raised where there is no file. All else means that nobody knows."""


class Files(Protocol):
    """Where a rule about files looks."""

    def canonical(self, path: str) -> str:
        """Return the one spelling of a path.

        Raises:
            ValueError: When it can be no path at all, or leads outside.
        """
        ...

    def holds(self, path: str) -> bool:
        """Tell whether there is a file at a canonical path; raises as `digest` does."""
        ...

    def digest(self, path: str) -> str | None:
        """Return by what a file's content is known, None where there is no file.

        It is the SHA-256 in hex, of more than `LARGE` bytes that of the size, the time of the
        last change and the beginning. A directory is no file, nor is a link that leads
        nowhere, a FIFO, a device or a socket.

        Raises:
            OSError: When it cannot be looked at.
            ValueError: When it can be no path at all.
            ConflictError: When it is being changed.
        """
        ...


@dataclass(frozen=True, slots=True)
class WorkspaceFiles:
    """The files of the workspace, as a call sees them.

    Args:
        workspace: The call's branch of it.
    """

    workspace: Filesystem

    def canonical(self, path: str) -> str:
        """Return the path without detours and without the alias of the root."""
        if path == WORKSPACE or path.startswith(f"{WORKSPACE}/"):
            path = path.removeprefix(WORKSPACE).lstrip("/")
        elif path.startswith("/"):
            # Whether it is a path at all is for the workspace to say.
            return path
        return posixpath.normpath(path or ".")

    def holds(self, path: str) -> bool:
        """Tell whether there is a file."""
        try:
            return self.workspace.stat(path).kind == "file"
        except NO_SUCH_FILE:
            return False

    def digest(self, path: str) -> str | None:
        """Return what the workspace knows already, else read the file."""
        try:
            known = self.workspace.stat(path)
            if known.kind != "file":
                return None
            if known.digest is not None:
                return known.digest
            with self.workspace.open(path, "rb") as stream:
                if known.size > LARGE and known.modified is not None:
                    return outline_of(stream, known.size, known.modified.isoformat())
                return digest_of(stream)
        except NO_SUCH_FILE:
            return None


@dataclass(frozen=True, slots=True)
class DirectoryFiles:
    """The files of a directory on disk.

    Args:
        root: The directory.
    """

    root: Path

    def canonical(self, path: str) -> str:
        """Return the path from the directory, with links followed."""
        root = os.path.realpath(self.root)
        found = os.path.relpath(os.path.realpath(Path(root, path)), root)
        if found.split(os.sep, 1)[0] == os.pardir:
            raise ValueError(
                "It lies outside of the directory that the files are in. Give a path within it."
            )
        return found

    def holds(self, path: str) -> bool:
        """Tell whether there is a file."""
        try:
            # Not `is_file`, which takes what it may not look at for nothing.
            return stat.S_ISREG(Path(self.root, path).stat().st_mode)
        except NO_SUCH_FILE:
            self._check_there()
            return False

    def digest(self, path: str) -> str | None:
        """Read the file."""
        if not self.holds(path):
            return None
        try:
            with Path(self.root, path).open("rb") as stream:
                status = os.fstat(stream.fileno())
                if status.st_size > LARGE:
                    return outline_of(stream, status.st_size, str(status.st_mtime_ns))
                return digest_of(stream)
        except NO_SUCH_FILE:
            return None

    def _check_there(self) -> None:
        if not self.root.is_dir():
            raise OSError(
                "The directory that the files are in is gone. This requires human intervention."
            )


def digest_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of what a stream gives, in hex."""
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def outline_of(stream: BinaryIO, size: int, modified: str) -> str:
    """Return the SHA-256 of a file's size, last change and beginning, in hex, marked as such."""
    digest = hashlib.sha256(f"{size} {modified} ".encode())
    digest.update(stream.read(CHUNK))
    return f"outline {digest.hexdigest()}"

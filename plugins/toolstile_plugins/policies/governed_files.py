"""The files that a policy inspects: in the workspace, or in a directory on disk."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
import unicodedata
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, Final, Literal
from urllib.parse import unquote

from toolstile_hookspecs import Filesystem

WORKSPACE: Final = "/workspace"
CHUNK: Final = 1 << 20
LARGE: Final = 64 * 1024 * 1024
"""The most bytes of a file that is hashed whole; a larger file would take too long."""
NO_SUCH_FILE: Final = (FileNotFoundError, NotADirectoryError)
"""The errors that mean "no file"; all others mean "unknown"."""

Kind = Literal["file", "directory"]

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:[/\\]|file:|[A-Za-z]:")
_VARIABLE: Final = re.compile(r"\$\w+|\$\{\w+\}|%\w+%")
_UNCLEAR: Final = re.compile(r"[*?]|\A[\s\"'`]|[\s\"'`]\Z")
_UNSEEN: Final = frozenset({"Cc", "Cf"})


@dataclass(frozen=True, slots=True)
class WorkspaceFiles:
    """The files of the workspace, as a call sees them."""

    workspace: Filesystem

    def canonical(self, path: str) -> str:
        """Return the one spelling of a path: without detours and the alias of the root."""
        if path == WORKSPACE or path.startswith(f"{WORKSPACE}/"):
            path = path.removeprefix(WORKSPACE).lstrip("/")
        elif path.startswith("/"):
            # The workspace decides whether it is a path.
            return path
        return posixpath.normpath(path or ".")

    def taken_for(self, path: str) -> str:
        """Return the path itself: its tools and this policy ask the same workspace."""
        return path

    def kind(self, path: str) -> Kind | None:
        """Return whether the path is a file or a directory, None if neither."""
        try:
            kind = self.workspace.stat(path).kind
        except NO_SUCH_FILE:
            return None
        return None if kind == "other" or kind == "link" else kind  # noqa: PLR1714 - narrows it

    def digest(self, path: str) -> str | None:
        """Return the SHA-256 of a file in hex, None without a file.

        The workspace may know the hash; otherwise the file is read. For more than `LARGE` bytes it
        is the hash of the size, the time of the last change and the beginning. A directory is not a
        file, nor is a dangling link or a device. Raises `OSError` if it cannot be read,
        `ValueError` if it cannot be a path, and `ConflictError` while it is being changed.
        """
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
    """The files of a directory on disk, whose tools may read a path in various ways."""

    root: Path

    def canonical(self, path: str) -> str:
        """Return the one spelling of a path: from the directory, with links followed.

        Raises `ValueError` if it leads outside, or if tools may read it as several files.
        """
        if not path.strip():
            raise ValueError("It is empty. Give the path of a file.")
        if path == "~" or (path.startswith("~") and "/" in path):
            raise ValueError("Not every tool takes ~ for the same directory. Write it out.")
        if _ADDRESS.match(path):
            raise ValueError("It is an address, or names a drive. Give the path alone.")
        root = os.path.realpath(self.root)
        whole = os.path.join(root, path)  # noqa: PTH118 - a Path would tidy it up
        found = os.path.relpath(os.path.realpath(whole), root)
        if found.split(os.sep, 1)[0] == os.pardir:
            raise ValueError(
                "It lies outside of the directory that the files are in. Give a path within it."
            )
        if os.path.realpath(os.path.normpath(whole)) != os.path.realpath(whole):
            raise ValueError(
                "It goes up (..) from a link, and not every tool follows the link first. Give the "
                "path without the detour."
            )
        return found

    def taken_for(self, path: str) -> str:
        """Return the file that a tool may take a canonical path for, if no file has that path.

        Names are alike if they differ only in case, Unicode form, percent signs, or dots and blanks
        at the end. Raises `ValueError` if the file is ambiguous.
        """
        if _UNCLEAR.search(path):
            raise ValueError(
                "Quotes, blanks at an end, * and ? are read in several ways. Give the plain path."
            )
        here = Path(os.path.realpath(self.root))
        for name in posixpath.normpath(unquote(path).replace("\\", "/")).split("/"):
            there = here / name
            if not os.path.lexists(there):
                if _VARIABLE.fullmatch(name):
                    raise ValueError("It may name a variable. Write out its value.")
                alike = _alike(here, name)
                if not alike:
                    return path
                if len(alike) > 1:
                    raise ValueError(f"It is like {' and '.join(alike)}. Give one of these names.")
                there = here / alike[0]
            here = there
        return self.canonical(str(here))

    def kind(self, path: str) -> Kind | None:
        """Return whether the path is a file or a directory, None if neither."""
        try:
            # Not `is_file`, which returns False for a file without permission.
            mode = Path(self.root, path).stat().st_mode
        except NO_SUCH_FILE:
            if not self.root.is_dir():
                raise OSError(
                    "The directory that the files are in is gone. This requires human intervention."
                ) from None
            return None
        return "file" if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else None

    def digest(self, path: str) -> str | None:
        """Return the SHA-256 of a file as `WorkspaceFiles` does."""
        if self.kind(path) != "file":
            return None
        try:
            with Path(self.root, path).open("rb") as stream:
                status = os.fstat(stream.fileno())
                if status.st_size > LARGE:
                    return outline_of(stream, status.st_size, str(status.st_mtime_ns))
                return digest_of(stream)
        except NO_SUCH_FILE:
            return None


Files = WorkspaceFiles | DirectoryFiles


def _alike(directory: Path, name: str) -> list[str]:
    wanted = _folded(name)
    try:
        there = [each.name for each in directory.iterdir()]
    except NO_SUCH_FILE:
        return []
    # A name with brackets is a glob for some tools.
    return sorted(each for each in there if _folded(each) == wanted or fnmatchcase(each, name))


def _folded(name: str) -> str:
    """Return a name without the differences between names that tools confuse."""
    plain = name.lower()
    if not name.isascii():
        plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
        plain = "".join(char for char in plain if unicodedata.category(char) not in _UNSEEN)
    return plain.strip(" \t\"'`").rstrip(" .") or name


def digest_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of a stream, in hex."""
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def outline_of(stream: BinaryIO, size: int, modified: str) -> str:
    """Return the SHA-256 of a file's size, last change and beginning, in hex, marked as such."""
    digest = hashlib.sha256(f"{size} {modified} ".encode())
    digest.update(stream.read(CHUNK))
    return f"outline {digest.hexdigest()}"

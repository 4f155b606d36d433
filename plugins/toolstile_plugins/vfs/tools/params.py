"""The params of the file tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

Place = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class ListDirectory:
    """List a directory."""

    path: str = ""
    """The directory, relative to the workspace; empty for its root."""
    offset: Place = 1
    """The first entry to show, counted from 1."""
    limit: Place | None = None
    """The maximum number of entries to show."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Read a text file."""

    path: Text
    """The file, relative to the workspace."""
    offset: Place = 1
    """The first line to show, counted from 1."""
    limit: Place | None = None
    """The maximum number of lines to show."""
    line_numbers: bool = False
    """Puts its number before each line; the number is not part of the file."""


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write a whole text file."""

    path: Text
    """The file, relative to the workspace; directories it needs are made."""
    content: str
    """The whole text, kept as it is, with its newlines."""
    overwrite: bool = False
    """Replaces an existing file; read it first."""


@dataclass(frozen=True, slots=True)
class EditFile:
    """Replace a piece of text in a file."""

    path: Text
    """The file, relative to the workspace; read it first."""
    old_text: Text
    """The text to replace, exactly as it is in the file, without line numbers."""
    new_text: str
    """The text to put in its place; empty to remove it."""
    replace_all: bool = False
    """Replaces every occurrence; otherwise there must be exactly one."""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete a file or a directory."""

    path: Text
    """The file or directory, relative to the workspace."""
    recursive: bool = False
    """Deletes a directory with everything in it."""


@dataclass(frozen=True, slots=True)
class CopyFile:
    """Copy a file or a directory."""

    source: Text
    """The path to copy, relative to the workspace."""
    target: Text
    """The whole path of the copy, not a directory to put it into."""
    overwrite: bool = False
    """Replaces an existing file at the target; read it first."""


@dataclass(frozen=True, slots=True)
class MoveFile:
    """Move or rename a file or a directory."""

    source: Text
    """The path to move, relative to the workspace."""
    target: Text
    """The whole new path, not a directory to put it into."""
    overwrite: bool = False
    """Replaces an existing file at the target; read it first."""


@dataclass(frozen=True, slots=True)
class GlobFiles:
    """Find files by their paths."""

    pattern: Text
    """Such as *.py, src/**/*.py or **/test_*; * stays within a name, ** crosses directories."""
    path: str = ""
    """The directory to look in; empty for the whole workspace."""
    offset: Place = 1
    """The first match to show, counted from 1."""
    limit: Place | None = None
    """The maximum number of matches to show."""


@dataclass(frozen=True, slots=True)
class GrepFiles:
    """Find lines by a regular expression."""

    pattern: Text
    """A regular expression (RE2: no look-around, no back-references)."""
    path: str = ""
    """The file or directory to look in; empty for the whole workspace."""
    glob: Text | None = None
    """Only files whose path beneath `path` matches, such as **/*.py."""
    ignore_case: bool = False
    """Ignores the difference between upper and lower case."""
    offset: Place = 1
    """The first match to show, counted from 1."""
    limit: Place | None = None
    """The maximum number of matches to show."""

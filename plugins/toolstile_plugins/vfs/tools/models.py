"""The params of the file tools, and their results as a model reads them.

The message of a result sums the call up; `render` adds the content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from toolstile_hookspecs import FileMatch
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs.text_files import lines_of

# --- Params


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
    """The whole text; its newlines are kept."""
    overwrite: bool = False
    """Replaces an existing file; read it first."""


@dataclass(frozen=True, slots=True)
class EditFile:
    """Replace a piece of text in a file."""

    path: Text
    """The file, relative to the workspace; read it first."""
    old_text: Text
    """The text to replace, exactly as in the file, without line numbers."""
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


# --- Results


def size_of(size: int) -> str:
    """Return a size for people and models.

    Example:
        >>> size_of(1), size_of(2048), size_of(52_428_800)
        ('1 byte', '2.0 KiB', '50.0 MiB')
    """
    if size < 1024:  # noqa: PLR2004 - a KiB
        return counted(size, "byte")
    amount, unit = size / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if amount < 1024:  # noqa: PLR2004 - one of the next unit
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a directory.

    Args:
        path: Relative to the workspace.
        kind: `file`, `directory`, `link`, or `other` for FIFOs, devices and the like.
        size: In bytes.
        readonly: Whether it cannot be changed.
        executable: Whether it is an executable file.
        target: The text of a link as models read it: escaped, and without an absolute path.
    """

    path: str
    kind: Literal["file", "directory", "link", "other"]
    size: int = 0
    readonly: bool = False
    executable: bool = False
    target: str = ""

    def render(self, name: str | None = None) -> str:
        text = self.named(name)
        if self.kind == "file":
            text += f"  {size_of(self.size)}"
        elif self.kind == "other":
            text += "  (not a file, cannot be opened)"
        if self.executable:
            text += "  (executable)"
        return f"{text}  (read-only)" if self.readonly else text

    def named(self, name: str | None = None) -> str:
        """Return its path, or another name, with a mark of its kind."""
        text = self.path if name is None else name
        if self.kind == "link":
            return f"{text} -> {self.target}"
        return f"{text}/" if self.kind == "directory" else text


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of a directory, or a part of them.

    Args:
        path: The directory.
        entries: The shown entries.
        first: The place of the first shown entry, from 1.
        total: The number of all entries.
    """

    path: str
    entries: tuple[Entry, ...]
    first: int
    total: int

    def render(self) -> str:
        return "\n".join(entry.render(entry.path.rpartition("/")[2]) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's text, or some lines of it; no lines if the file cannot be shown.

    Args:
        path: The file.
        content: The shown lines with their newlines.
        first_line: The number of the first one, from 1.
        last_line: The number of the last one; less than `first_line` for an empty file.
        total_lines: The number of lines in the file; 0 if it cannot be shown.
        line_numbers: Whether numbers are shown.
        kind: `text`, or why it cannot be shown: `binary`, `large`.
    """

    path: str
    content: str
    first_line: int
    last_line: int
    total_lines: int
    line_numbers: bool = False
    kind: Literal["text", "binary", "large"] = "text"

    def render(self) -> str:
        if not self.line_numbers:
            return self.content
        width = len(str(self.last_line))
        lines = enumerate(lines_of(self.content), self.first_line)
        return "".join(f"{number:>{width}}\t{line}" for number, line in lines)


class _Change:
    """A change; its message says everything."""

    __slots__ = ()

    def render(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Written(_Change):
    """A file that was written.

    Args:
        path: The file.
        size: In bytes.
        created: Whether it is new.
    """

    path: str
    size: int
    created: bool


@dataclass(frozen=True, slots=True)
class Edited(_Change):
    """An edited file.

    Args:
        path: The file.
        replacements: The number of replacements.
        lines: The first of the lines at which the replaced text began, from 1.
        size: The new size of the file, in bytes.
    """

    path: str
    replacements: int
    lines: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Deleted(_Change):
    """Something that was deleted.

    Args:
        path: The file or directory.
        files: The number of deleted files.
    """

    path: str
    files: int


@dataclass(frozen=True, slots=True)
class Transferred(_Change):
    """Something that was copied or moved.

    Args:
        source: The path copied or moved.
        target: The new path.
        files: The number of files.
    """

    source: str
    target: str
    files: int


@dataclass(frozen=True, slots=True)
class Found:
    """Paths that match a pattern, or a part of them.

    Args:
        entries: The shown paths.
        first: The place of the first shown path, from 1.
        total: The number of all paths.
    """

    entries: tuple[Entry, ...]
    first: int
    total: int

    def render(self) -> str:
        return "\n".join(
            f"{entry.named()}  (executable)" if entry.executable else entry.named()
            for entry in self.entries
        )


@dataclass(frozen=True, slots=True)
class Matches:
    """Lines that match an expression, or a part of them.

    Args:
        matches: The shown lines.
        first: The place of the first shown line, from 1.
        more: Whether more lines follow.
    """

    matches: tuple[FileMatch, ...]
    first: int
    more: bool

    def render(self) -> str:
        return "\n".join(line_of(match) for match in self.matches)


def line_of(match: FileMatch) -> str:
    """Return a match as a line."""
    return f"{match.path}:{match.line}: {match.text}"

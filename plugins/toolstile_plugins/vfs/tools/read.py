"""The tools that show directories and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Literal, TypeVar

from toolstile_hookspecs import (
    FileStat,
    Filesystem,
    Tool,
    ToolContext,
    ToolExample,
    ToolResult,
    ToolstileError,
)
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.text_files import BYTE_ORDER_MARK
from toolstile_plugins.vfs.tools.checks import (
    Checks,
    explaining,
    noted,
    reason_of,
    shown,
    too_large,
    workspace,
)
from toolstile_plugins.vfs.tools.params import ListDirectory, ReadFile
from toolstile_plugins.vfs.tools.results import Entry, FileText, Listing, lines_of

# --- Pages


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of many items.

    Args:
        items: Those to show.
        first: The place of the first one, from 1.
        more: Whether there are more after the last one.
    """

    items: tuple[T, ...]
    first: int
    more: bool

    @property
    def next(self) -> int:
        """The place after the last item."""
        return self.first + len(self.items)

    @property
    def is_whole(self) -> bool:
        """True when nothing is left out."""
        return self.first == 1 and not self.more

    @property
    def span(self) -> str:
        """The places of the first and last item, one where they are the same."""
        if len(self.items) == 1:
            return f"{self.first:,}"
        return f"{self.first:,}-{self.next - 1:,}"


def cut(
    items: Iterable[T],
    show: Callable[[T], str],
    *,
    offset: int,
    limit: int | None,
    max_chars: int,
) -> Page[T]:
    """Return a page, which holds one item at least if there is one at its place.

    Args:
        items: All of them; no more of them are taken than are needed.
        show: How an item is shown.
        offset: The place of the first one to show, from 1.
        limit: How many to show at most.
        max_chars: How many characters to show at most.

    Example:
        >>> cut("abcd", str, offset=2, limit=2, max_chars=100)
        Page(items=('b', 'c'), first=2, more=True)
    """
    taken: list[T] = []
    room = max_chars
    for item in islice(items, offset - 1, None):
        room -= len(show(item)) + 1
        if taken and (room < -1 or len(taken) == limit):
            return Page(tuple(taken), offset, more=True)
        taken.append(item)
    return Page(tuple(taken), offset, more=False)


# --- Tools


@dataclass(frozen=True)
class Reading:
    """The handlers, with their limits.

    Args:
        config: The limits.
    """

    config: VfsConfig

    def list_directory(self, params: ListDirectory, *, context: ToolContext) -> ToolResult[Listing]:
        """Show what a directory holds."""
        files, what = workspace(context), f"Cannot list {shown(params.path)}"
        with explaining(what):
            checks = Checks(files, what)
            checks.directory(params.path)
            checks.pass_or_refuse()
            entries = [entry_of(stat) for stat in files.list(params.path)]
            _check_offset(checks, params.offset, len(entries), "entry", "entries")
            checks.pass_or_refuse()
        page = cut(
            entries,
            Entry.render,
            offset=params.offset,
            limit=params.limit,
            max_chars=self.config.max_result_chars,
        )
        message = _told_listing(params.path, page, len(entries))
        return ToolResult.ok(
            Listing(params.path, page.items, page.first, len(entries)),
            message=noted(message, files),
        )

    def read_file(self, params: ReadFile, *, context: ToolContext) -> ToolResult[FileText]:
        """Show a text file, or say what a file is that cannot be shown."""
        files, what = workspace(context), f"Cannot read {shown(params.path)}"
        with explaining(what):
            checks = Checks(files, what)
            stat = checks.file(params.path)
            checks.pass_or_refuse()
            size, most = stat.size if stat is not None else 0, self.config.max_file_size
            if size > most:
                return _told_unshown(params.path, "large", f"it {too_large(size, most)}")
            try:
                lines = lines_of(files.read(params.path))
            except ToolstileError:
                raise
            except ValueError as error:
                return _told_unshown(params.path, "binary", reason_of(error))
            _check_offset(checks, params.offset, len(lines), "line", "lines")
            checks.pass_or_refuse()
        return self._told_text(params, lines, files)

    def _told_text(
        self, params: ReadFile, lines: list[str], files: Filesystem
    ) -> ToolResult[FileText]:
        page = cut(
            lines,
            # A number before the line, at most that wide.
            lambda line: line + "0" * (len(str(len(lines))) if params.line_numbers else 0),
            offset=params.offset,
            limit=params.limit,
            max_chars=self.config.max_result_chars,
        )
        content, message = "".join(page.items), _told_lines(params.path, lines, page)
        longest = self.config.max_result_chars
        if len(page.items) == 1 and len(content) > longest:
            message += (
                f" Line {page.first:,} has {len(content):,} characters; only the first "
                f"{longest:,} are shown, and no tool here shows the rest."
            )
            content = content[:longest]
        value = FileText(
            params.path, content, page.first, page.next - 1, len(lines), params.line_numbers
        )
        return ToolResult.ok(value, message=noted(message, files))


def entry_of(stat: FileStat) -> Entry:
    """Return what a result says of a path."""
    return Entry(stat.path, stat.kind, stat.size, stat.readonly)


def rest(tool: str, page: Page[Any]) -> str:
    """Return how to get what a page leaves out after it, or nothing."""
    return f" For the rest call {tool} with offset={page.next}." if page.more else ""


def _check_offset(checks: Checks, offset: int, total: int, thing: str, things: str) -> None:
    if offset > max(total, 1):
        checks.add(
            f"The offset {offset} is past the end: there {'is' if total == 1 else 'are'} "
            f"{counted(total, thing, things)}. Use an offset from 1 to {max(total, 1)}, then retry."
        )


def _told_listing(path: str, page: Page[Entry], total: int) -> str:
    where = shown(path)
    where = where[0].upper() + where[1:] if where.startswith("the root") else where
    if total == 0:
        return f"{where} is empty."
    all_of_it = f"{where} holds {counted(total, 'entry', 'entries')}"
    if page.is_whole:
        return f"{all_of_it}:"
    return f"{all_of_it}; {page.span} are shown.{rest('list_directory', page)}"


def _told_unshown(path: str, kind: Literal["binary", "large"], why: str) -> ToolResult[FileText]:
    # A success: whoever was told so knows of the file what there is to know, and may replace it.
    remedy = " Use grep_files to find lines in it." if kind == "large" else ""
    return ToolResult.ok(
        FileText(path, "", 1, 0, 0, kind=kind),
        message=f"{shown(path)} cannot be shown: {why}{remedy} It can be replaced or deleted as a "
        "whole.",
    )


def _told_lines(path: str, lines: list[str], page: Page[str]) -> str:
    if not lines:
        return f"{shown(path)} is empty."
    facts = [counted(len(lines), "line")]
    if not page.is_whole:
        noun = "line" if len(page.items) == 1 else "lines"
        facts = [f"{noun} {page.span} of {len(lines):,}"]
    if lines[0].endswith("\r\n"):
        facts.append(r"which ends with \r\n" if len(lines) == 1 else r"which end with \r\n")
    if not lines[-1].endswith("\n"):
        facts.append("no newline at the end")
    if lines[0].startswith(BYTE_ORDER_MARK):
        facts.append("a byte order mark at the beginning")
    return f"{shown(path)}: {', '.join(facts)}.{rest('read_file', page)}"


def reading_tools(config: VfsConfig) -> tuple[Tool[Any, Any], ...]:
    """Return the tools that show directories and files."""
    reading = Reading(config)
    return (
        Tool[ListDirectory, Listing](
            name="list_directory",
            description="List what a directory of the workspace holds, with sizes.",
            handler=reading.list_directory,
            category="read",
            consequence="low",
            contained=True,
            tags=("files",),
            examples=(
                ToolExample(
                    "List a directory that holds one file and one directory",
                    ListDirectory("docs"),
                    Listing(
                        "docs",
                        (Entry("docs/guides", "directory"), Entry("docs/index.md", "file", 1200)),
                        1,
                        2,
                    ),
                ),
            ),
        ),
        Tool[ReadFile, FileText](
            name="read_file",
            description="Read a text file, or some of its lines with offset and limit.",
            handler=reading.read_file,
            category="read",
            consequence="low",
            contained=True,
            tags=("files",),
            examples=(
                ToolExample(
                    "Read lines 41 and 42, with their numbers",
                    ReadFile("src/app.py", offset=41, limit=2, line_numbers=True),
                    FileText("src/app.py", "import os\nimport sys\n", 41, 42, 90, True),  # noqa: FBT003 - as the tool answers
                ),
            ),
        ),
    )

"""The tools that show directories and files, and find files and lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Generic, Literal, TypeVar

from toolstile_hookspecs import (
    FileMatch,
    FileStat,
    Filesystem,
    ToolContext,
    ToolResult,
    ToolstileError,
)
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs.nodes import shown_target
from toolstile_plugins.vfs.overlay import Overlay
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.text_files import BYTE_ORDER_MARK, lines_of, newlines_of
from toolstile_plugins.vfs.tools.checks import ROOT, Checks, checking, reason_of, shown, too_large
from toolstile_plugins.vfs.tools.models import (
    Entry,
    FileText,
    Found,
    GlobFiles,
    GrepFiles,
    ListDirectory,
    Listing,
    Matches,
    ReadFile,
    line_of,
)

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
    items: Iterable[T], show: Callable[[T], str], *, offset: int, limit: int | None, max_chars: int
) -> Page[T]:
    """Return a page, which holds one item at least if there is one at its place.

    Args:
        items: All items, of which no more are taken than needed.
        show: Returns the text of an item.
        offset: The place of the first item to show, from 1.
        limit: The most items to show.
        max_chars: The most characters to show.

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


@dataclass(frozen=True)
class Reading:
    """The handlers, with their limits."""

    config: VfsConfig

    def list_directory(self, params: ListDirectory, *, context: ToolContext) -> ToolResult[Listing]:
        """Show what a directory holds."""
        with checking(context, f"Cannot list {shown(params.path)}") as checks:
            checks.directory(params.path)
            checks.pass_or_refuse()
            total, stats = _listed(checks.files, params)
            _check_offset(checks, params.offset, total, "entry", "entries")
            checks.pass_or_refuse()
            most = self.config.max_result_chars
            entries = map(entry_of, stats)
            page = cut(entries, Entry.render, offset=1, limit=params.limit, max_chars=most)
        page = replace(page, first=params.offset)
        listing = Listing(params.path, page.items, page.first, total)
        message = _listing_message(params.path, page, total)
        return ToolResult.ok(listing, message=checks.noted(message))

    def read_file(self, params: ReadFile, *, context: ToolContext) -> ToolResult[FileText]:
        """Show a text file, or say what a file is that cannot be shown."""
        with checking(context, f"Cannot read {shown(params.path)}") as checks:
            stat = checks.file(params.path)
            checks.pass_or_refuse()
            size, most = stat.size if stat is not None else 0, self.config.max_file_size
            if size > most:
                return _unshown(params.path, "large", f"it {too_large(size, most)}")
            try:
                lines = lines_of(checks.files.read(params.path))
            except ToolstileError:
                raise
            except ValueError as error:
                return _unshown(params.path, "binary", reason_of(error))
            _check_offset(checks, params.offset, len(lines), "line", "lines")
            checks.pass_or_refuse()
        # A number before the line, at most that wide.
        number = "0" * len(str(len(lines))) if params.line_numbers else ""
        page = self._page(lines, lambda line: line + number, params)
        content, message = "".join(page.items), _lines_message(params.path, lines, page)
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
        return ToolResult.ok(value, message=checks.noted(message))

    def glob_files(self, params: GlobFiles, *, context: ToolContext) -> ToolResult[Found]:
        """Find files by their paths."""
        with checking(context, f"Cannot look for {params.pattern}") as checks:
            checks.directory(params.path)
            checks.pass_or_refuse()
            stats = _while_wanted(checks.files.glob(params.pattern, params.path), context)
            entries = [entry_of(stat) for stat in stats]
            find = partial(checks.files.glob, path=params.path)
            other = "" if entries else _other_form(params.pattern, find)
        page = self._page(entries, lambda entry: entry.path, params)
        found = Found(page.items, page.first, len(entries))
        message = _found_message(params, page, len(entries)) + other
        return ToolResult.ok(found, message=checks.noted(message))

    def grep_files(self, params: GrepFiles, *, context: ToolContext) -> ToolResult[Matches]:
        """Find lines by a regular expression."""
        with checking(context, f"Cannot search for {params.pattern}") as checks:
            checks.existing(params.path)
            checks.pass_or_refuse()
            pattern = f"(?i){params.pattern}" if params.ignore_case else params.pattern
            found = checks.files.search(pattern, params.path, glob=params.glob)
            page = self._page(_while_wanted(found, context), line_of, params)
            find = partial(checks.files.search, path=params.path, glob=params.glob)
            other = "" if page.items else _other_form(pattern, find)
        matches = Matches(page.items, page.first, page.more)
        return ToolResult.ok(matches, message=checks.noted(_matches_message(params, page) + other))

    def _page(
        self,
        items: Iterable[T],
        show: Callable[[T], str],
        params: ListDirectory | ReadFile | GlobFiles | GrepFiles,
    ) -> Page[T]:
        most = self.config.max_result_chars
        return cut(items, show, offset=params.offset, limit=params.limit, max_chars=most)


def _listed(files: Filesystem, params: ListDirectory) -> tuple[int, Iterable[FileStat]]:
    """Return how many entries there are, and those from the offset on; looked at when taken."""
    after = slice(params.offset - 1, None)
    if isinstance(files, Overlay):
        names = files.names(params.path)
        return len(names), files.stats(params.path, names[after])
    listed = files.list(params.path)
    return len(listed), listed[after]


def entry_of(stat: FileStat) -> Entry:
    """Return what a result says of a path."""
    is_executable = stat.kind == "file" and bool((stat.mode or 0) & 0o111)
    target = "" if stat.target is None else shown_target(stat.target)
    return Entry(stat.path, stat.kind, stat.size, stat.readonly, is_executable, target)


def rest(tool: str, page: Page[Any]) -> str:
    """Return how to get what a page leaves out after it, or nothing."""
    return f" For the rest call {tool} with offset={page.next}." if page.more else ""


def _check_offset(checks: Checks, offset: int, total: int, thing: str, things: str) -> None:
    if offset > max(total, 1):
        checks.add(
            f"The offset {offset} is past the end: there {'is' if total == 1 else 'are'} "
            f"{counted(total, thing, things)}. Use an offset from 1 to {max(total, 1)}, then retry."
        )


def _listing_message(path: str, page: Page[Entry], total: int) -> str:
    where = shown(path)
    where = where[0].upper() + where[1:] if where.startswith("the root") else where
    if total == 0:
        return f"{where} is empty."
    all_of_it = f"{where} holds {counted(total, 'entry', 'entries')}"
    if page.is_whole:
        return f"{all_of_it}:"
    return f"{all_of_it}; {page.span} are shown.{rest('list_directory', page)}"


def _unshown(path: str, kind: Literal["binary", "large"], why: str) -> ToolResult[FileText]:
    # A success: the model knows now all there is to know of the file, and may replace it.
    remedy = " Use grep_files to find lines in it." if kind == "large" else ""
    return ToolResult.ok(
        FileText(path, "", 1, 0, 0, kind=kind),
        message=f"{shown(path)} cannot be shown: {why}{remedy} It can be replaced or deleted as a "
        "whole.",
    )


def _lines_message(path: str, lines: list[str], page: Page[str]) -> str:
    if not lines:
        return f"{shown(path)} is empty."
    facts = [counted(len(lines), "line")]
    if not page.is_whole:
        noun = "line" if len(page.items) == 1 else "lines"
        facts = [f"{noun} {page.span} of {len(lines):,}"]
    newlines = newlines_of("".join(lines))
    if len(newlines) > 1:
        facts.append(r"some ending with \r\n and some with \n")
    elif "\r\n" in newlines:
        facts.append(r"which ends with \r\n" if len(lines) == 1 else r"which end with \r\n")
    if not lines[-1].endswith("\n"):
        facts.append("no newline at the end")
    if lines[0].startswith(BYTE_ORDER_MARK):
        facts.append("a byte order mark at the beginning")
    return f"{shown(path)}: {', '.join(facts)}.{rest('read_file', page)}"


def _while_wanted(items: Iterable[T], context: ToolContext) -> Iterator[T]:
    """Yield items until the call is cancelled, which the host then says."""
    for item in items:
        if context.cancelled:
            return
        yield item


def _found_message(params: GlobFiles, page: Page[Entry], total: int) -> str:
    where = _where(params.path)
    if total == 0:
        return (
            f"Nothing{where} matches {params.pattern}. ** crosses directories, as in **/*.py; "
            "grep_files looks at what files say."
        )
    if not page.items:
        return f"There is nothing at offset {page.first}: {counted(total, 'path')} match."
    verb = "matches" if total == 1 else "match"
    if page.is_whole:
        return f"{counted(total, 'path')}{where} {verb} {params.pattern}:"
    return (
        f"{counted(total, 'path')}{where} {verb} {params.pattern}; {page.span} are shown."
        f"{rest('glob_files', page)}"
    )


def _matches_message(params: GrepFiles, page: Page[FileMatch]) -> str:
    where = _where(params.path)
    if not page.items and page.first == 1:
        return f"No line{where} matches {params.pattern}. Try a shorter or simpler pattern."
    if not page.items:
        return f"There is nothing at offset {page.first}: fewer lines match."
    held = counted(len({item.path for item in page.items}), "file")
    if page.is_whole:
        verb = "matches" if len(page.items) == 1 else "match"
        return f"{counted(len(page.items), 'line')}{where} {verb} {params.pattern}, in {held}:"
    return f"Matches {page.span}{where} are shown, in {held}.{rest('grep_files', page)}"


def _other_form(pattern: str, find: Callable[[str], Iterable[object]]) -> str:
    """Return a note where a pattern finds what looks the same in another Unicode form."""
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, pattern)
        if other != pattern and next(iter(find(other)), None) is not None:
            return f" There is what looks the same in another Unicode form: use {other!a}."
    return ""


def _where(path: str) -> str:
    name = shown(path)
    return f" in {'the workspace' if name == ROOT else name}"

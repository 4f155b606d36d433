"""The handlers of the file tools."""

from __future__ import annotations

import contextlib
import difflib
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, Literal, TypeVar

from toolstile_hookspecs import FileStat, Filesystem, ToolContext, ToolResult, ToolstileError
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs.nodes import shown_target
from toolstile_plugins.vfs.overlay import Overlay
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.text_files import (
    BYTE_ORDER_MARK,
    SNIFFED_BYTES,
    lines_of,
    marked_like,
    newlines_of,
    with_newlines,
)
from toolstile_plugins.vfs.tools.checks import (
    ROOT,
    Checks,
    checking,
    reason_of,
    shown,
    too_large,
    twin_of,
)
from toolstile_plugins.vfs.tools.models import (
    CopyFile,
    Deleted,
    DeleteFile,
    Edited,
    EditFile,
    Entry,
    FileText,
    Found,
    GlobFiles,
    GrepFiles,
    ListDirectory,
    Listing,
    Matches,
    MoveFile,
    ReadFile,
    Transferred,
    WriteFile,
    Written,
    line_of,
    size_of,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of many items."""

    items: tuple[T, ...]
    first: int  # the place of the first item, from 1
    more: bool  # whether more items follow

    @property
    def next(self) -> int:
        """The place after the last item."""
        return self.first + len(self.items)

    @property
    def is_whole(self) -> bool:
        return self.first == 1 and not self.more

    @property
    def span(self) -> str:
        """The places of the first and last item; one place for a single item."""
        if len(self.items) == 1:
            return f"{self.first:,}"
        return f"{self.first:,}-{self.next - 1:,}"


def cut(
    items: Iterable[T], show: Callable[[T], str], *, offset: int, limit: int | None, max_chars: int
) -> Page[T]:
    """Return a page that begins at a place from 1, with at least one item if it has one.

    No more items are taken than needed; their texts, by `show`, count towards `max_chars`.

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
class Handlers:
    """The handlers of the file tools, with their limits."""

    config: VfsConfig

    def list_directory(self, params: ListDirectory, *, context: ToolContext) -> ToolResult[Listing]:
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
        where = shown(params.path)
        where = where[0].upper() + where[1:] if where.startswith("the root") else where
        message = f"{where} holds {counted(total, 'entry', 'entries')}"
        if total == 0:
            message = f"{where} is empty."
        elif page.is_whole:
            message += ":"
        else:
            message += f"; {page.span} are shown.{rest('list_directory', page)}"
        listing = Listing(params.path, page.items, page.first, total)
        return ToolResult.ok(listing, message=checks.noted(message))

    def read_file(self, params: ReadFile, *, context: ToolContext) -> ToolResult[FileText]:
        """Show a text file, or name the reason why it cannot be shown."""
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
        # The width of the number before each line.
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
        with checking(context, f"Cannot look for {params.pattern}") as checks:
            checks.directory(params.path)
            checks.pass_or_refuse()
            stats = _while_wanted(checks.files.glob(params.pattern, params.path), context)
            entries = [entry_of(stat) for stat in stats]
            find = partial(checks.files.glob, path=params.path)
            other = "" if entries else _other_form(params.pattern, find)
        page = self._page(entries, lambda entry: entry.path, params)
        where, total = _where(params.path), len(entries)
        verb = "matches" if total == 1 else "match"
        message = f"{counted(total, 'path')}{where} {verb} {params.pattern}"
        if total == 0:
            message = (
                f"Nothing{where} matches {params.pattern}. ** crosses directories, as in **/*.py; "
                f"grep_files searches the texts of files.{other}"
            )
        elif not page.items:
            message = f"There is nothing at offset {page.first}: {counted(total, 'path')} match."
        elif page.is_whole:
            message += ":"
        else:
            message += f"; {page.span} are shown.{rest('glob_files', page)}"
        found = Found(page.items, page.first, total)
        return ToolResult.ok(found, message=checks.noted(message))

    def grep_files(self, params: GrepFiles, *, context: ToolContext) -> ToolResult[Matches]:
        with checking(context, f"Cannot search for {params.pattern}") as checks:
            checks.existing(params.path)
            checks.pass_or_refuse()
            pattern = f"(?i){params.pattern}" if params.ignore_case else params.pattern
            found = checks.files.search(pattern, params.path, glob=params.glob)
            page = self._page(_while_wanted(found, context), line_of, params)
            find = partial(checks.files.search, path=params.path, glob=params.glob)
            other = "" if page.items else _other_form(pattern, find)
        where, held = _where(params.path), counted(len({item.path for item in page.items}), "file")
        if not page.items and page.first == 1:
            message = f"No line{where} matches {params.pattern}. Try a shorter or simpler pattern."
        elif not page.items:
            message = f"There is nothing at offset {page.first}: fewer lines match."
        elif page.is_whole:
            lines = counted(len(page.items), "line")
            verb = "matches" if len(page.items) == 1 else "match"
            message = f"{lines}{where} {verb} {params.pattern}, in {held}:"
        else:
            message = f"Matches {page.span}{where} are shown, in {held}.{rest('grep_files', page)}"
        matches = Matches(page.items, page.first, page.more)
        return ToolResult.ok(matches, message=checks.noted(message + other))

    def _page(
        self,
        items: Iterable[T],
        show: Callable[[T], str],
        params: ListDirectory | ReadFile | GlobFiles | GrepFiles,
    ) -> Page[T]:
        most = self.config.max_result_chars
        return cut(items, show, offset=params.offset, limit=params.limit, max_chars=most)

    def write_file(self, params: WriteFile, *, context: ToolContext) -> ToolResult[Written]:
        with checking(context, f"Cannot write {shown(params.path)}") as checks:
            files = checks.files
            before = checks.target(params.path, overwrite=params.overwrite)
            replaces = before is not None and before.kind == "file"
            start = b""
            # A file that cannot be read can be replaced, too.
            if replaces:
                with contextlib.suppress(PermissionError), files.open(params.path, "rb") as stream:
                    start = stream.read(SNIFFED_BYTES)
            content = marked_like(start, params.content)
            checks.writable(params.path)
            checks.size(
                params.path,
                _bytes_of(content),
                self.config.max_file_size,
                "Write it as several files, or less.",
            )
            checks.pass_or_refuse()
            files.write(params.path, content)
            size = files.stat(params.path).size
            twin = twin_of(files, params.path) if before is None else ""
        done = "Created" if before is None else "Replaced"
        message = f"{done} {shown(params.path)} ({size_of(size)}).{twin}"
        return ToolResult.ok(Written(params.path, size, before is None), message=message)

    def edit_file(self, params: EditFile, *, context: ToolContext) -> ToolResult[Edited]:
        with checking(context, f"Cannot edit {shown(params.path)}") as checks:
            files, most = checks.files, self.config.max_file_size
            stat = checks.file(params.path)
            if stat is not None:
                remedy = "Such a file cannot be edited with this tool."
                checks.size(params.path, stat.size, most, remedy)
            checks.writable(params.path)
            if params.old_text == params.new_text:
                checks.add("old_text and new_text are the same. Give the text that is to be there.")
            checks.pass_or_refuse()
            text = files.read(params.path)
            newlines = newlines_of(text)
            plain = [with_newlines(each, "\n") for each in (params.old_text, params.new_text)]
            if len(newlines) == 1 and plain[0] != plain[1]:
                # With the newlines of the file, unless the edit changes only newlines.
                old, new = (with_newlines(each, next(iter(newlines))) for each in plain)
                params = replace(params, old_text=old, new_text=new)
            places = _places(text, params.old_text)
            _check_places(checks, params, text, places)
            changed = text.replace(params.old_text, params.new_text)
            checks.size(params.path, _bytes_of(changed), most, "Put in less text.")
            checks.pass_or_refuse()
            files.write(params.path, changed)
            size = files.stat(params.path).size
        message = (
            f"Replaced {counted(len(places), 'occurrence')} in {shown(params.path)}, at "
            f"{_at_lines(places)}."
        )
        if len(newlines) > 1 and "\n" in params.new_text:
            message += r" The file has lines with \n and with \r\n; new_text keeps its own."
        message = checks.noted(message)
        value = Edited(
            params.path, len(places), tuple(list(dict.fromkeys(places))[:_TOLD_PLACES]), size
        )
        return ToolResult.ok(value, message=message)

    def delete_file(self, params: DeleteFile, *, context: ToolContext) -> ToolResult[Deleted]:
        with checking(context, f"Cannot delete {shown(params.path)}") as checks:
            files = checks.files
            stat = checks.existing(params.path)
            checks.writable(params.path)
            is_directory = stat is not None and stat.kind == "directory"
            if shown(params.path) == ROOT:
                checks.add("It cannot be deleted. Delete its entries one by one.")
            elif is_directory and not params.recursive and (held := len(files.list(params.path))):
                checks.add(
                    f"{shown(params.path)} is a directory with {counted(held, 'entry', 'entries')}."
                    " To delete it with everything in it, retry with recursive=true."
                )
            checks.pass_or_refuse()
            gone = count_files(files, params.path) if is_directory else 1
            files.delete(params.path, recursive=params.recursive)
        message = f"Deleted {shown(params.path)}"
        message += f" with {counted(gone, 'file')} in it." if is_directory else "."
        return ToolResult.ok(Deleted(params.path, gone), message=message)

    def copy_file(self, params: CopyFile, *, context: ToolContext) -> ToolResult[Transferred]:
        return self._transfer("copy", params, context)

    def move_file(self, params: MoveFile, *, context: ToolContext) -> ToolResult[Transferred]:
        return self._transfer("move", params, context)

    def _transfer(
        self, verb: Literal["copy", "move"], params: CopyFile | MoveFile, context: ToolContext
    ) -> ToolResult[Transferred]:
        source, target = params.source, params.target
        places = f"{shown(source)} to {shown(target)}"
        with checking(context, f"Cannot {verb} {places}") as checks:
            stat = checks.existing(source)
            there = checks.target(target, overwrite=params.overwrite)
            checks.writable(target)
            if stat is not None:
                if stat.kind == "directory":
                    if there is not None and there.kind == "file":
                        told = f"{shown(source)} is a directory and {shown(target)} a file."
                        checks.add(f"{told} Choose another target.")
                elif there is not None and checks.files.stat(source).path == there.path:
                    checks.add("source and target are the same file. Choose another target.")
                remedy = "Such a file cannot be copied or moved with this tool."
                checks.size(source, stat.size, self.config.max_file_size, remedy)
            if verb == "move":
                checks.writable(source)
            checks.pass_or_refuse()
            transferred = count_files(checks.files, source)
            act = checks.files.copy if verb == "copy" else checks.files.move
            act(source, target, overwrite=params.overwrite)
        extent = "" if transferred == 1 else f" ({counted(transferred, 'file')})"
        done = "Copied" if verb == "copy" else "Moved"
        value = Transferred(source, target, transferred)
        return ToolResult.ok(value, message=f"{done} {places}{extent}.")


def _listed(files: Filesystem, params: ListDirectory) -> tuple[int, Iterable[FileStat]]:
    """Return the number of entries, and the facts about entries from the offset on, lazily."""
    after = slice(params.offset - 1, None)
    if isinstance(files, Overlay):
        names = files.names(params.path)
        return len(names), files.stats(params.path, names[after])
    listed = files.list(params.path)
    return len(listed), listed[after]


def entry_of(stat: FileStat) -> Entry:
    """Return the facts about a path for a result."""
    is_executable = stat.kind == "file" and bool((stat.mode or 0) & 0o111)
    target = "" if stat.target is None else shown_target(stat.target)
    return Entry(stat.path, stat.kind, stat.size, stat.readonly, is_executable, target)


def rest(tool: str, page: Page[Any]) -> str:
    """Return how to get the items after a page, or an empty text."""
    return f" For the rest call {tool} with offset={page.next}." if page.more else ""


def _check_offset(checks: Checks, offset: int, total: int, thing: str, things: str) -> None:
    if offset > max(total, 1):
        checks.add(
            f"The offset {offset} is past the end: there {'is' if total == 1 else 'are'} "
            f"{counted(total, thing, things)}. Use an offset from 1 to {max(total, 1)}, then retry."
        )


def _unshown(path: str, kind: Literal["binary", "large"], why: str) -> ToolResult[FileText]:
    # A success, because the model now knows enough of the file to replace it.
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
    for item in items:
        if context.cancelled:
            return
        yield item


def _other_form(pattern: str, find: Callable[[str], Iterable[object]]) -> str:
    """Return a note if a pattern finds something in another Unicode form."""
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, pattern)
        if other != pattern and next(iter(find(other)), None) is not None:
            return f" Something looks the same in another Unicode form: use {other!a}."
    return ""


def _where(path: str) -> str:
    name = shown(path)
    return f" in {'the workspace' if name == ROOT else name}"


# --- Writing


_SHOWN_PLACES: Final = 10
_TOLD_PLACES: Final = 100
_COMPARED_LINES: Final = 5_000
_COMPARED_CHARS: Final = 200


def count_files(files: Filesystem, path: str) -> int:
    """Return the number of files at or beneath a path."""
    if files.stat(path).kind != "directory":
        return 1
    return sum(stat.kind != "directory" for stat in files.glob("**", path))


def _bytes_of(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _places(text: str, wanted: str) -> list[int]:
    places: list[int] = []
    line, counted_to = 1, 0
    start = text.find(wanted)
    while start >= 0:
        line += text.count("\n", counted_to, start)
        counted_to = start
        places.append(line)
        start = text.find(wanted, start + len(wanted))
    return places


def _at_lines(places: list[int]) -> str:
    lines = list(dict.fromkeys(places))
    if len(lines) == 1:
        return f"line {lines[0]}"
    shown_lines = [str(line) for line in lines[:_SHOWN_PLACES]]
    if len(lines) > _SHOWN_PLACES:
        return f"lines {', '.join(shown_lines)} and {len(lines) - _SHOWN_PLACES:,} more"
    return f"lines {', '.join(shown_lines[:-1])} and {shown_lines[-1]}"


def _check_places(checks: Checks, params: EditFile, text: str, places: list[int]) -> None:
    if not places:
        checks.add(
            f"old_text is not in {shown(params.path)}. {_why_not_there(text, params.old_text)}"
        )
    elif len(places) > 1 and not params.replace_all:
        checks.add(
            f"old_text is in {shown(params.path)} {len(places):,} times, at {_at_lines(places)}. "
            "Give more of the text around the one you mean, or set replace_all=true, then retry."
        )
    elif not params.replace_all:
        first = text.find(params.old_text)
        overlapping = text.find(params.old_text, first + 1)
        if overlapping >= 0:
            both = [*places, places[0] + text.count("\n", first, overlapping)]
            checks.add(
                f"old_text is in {shown(params.path)} 2 times that overlap, at {_at_lines(both)}. "
                "Give more of the text around the one you mean, then retry."
            )


def _why_not_there(text: str, wanted: str) -> str:
    if with_newlines(wanted, "\n") in with_newlines(text, "\n"):
        return (
            r"The file has lines that end with \n and lines that end with \r\n, and here they end "
            "otherwise than in old_text. Give a piece without a line's end, or write each as "
            "the file does, then retry."
        )
    if _plain(wanted) in _plain(text):
        missing = [_plain(part) for part in wanted.splitlines() if part not in text]
        for number, line in enumerate(lines_of(text), 1):
            if any(part in _plain(line) for part in missing):
                return (
                    f"Line {number} looks the same, but is written in another Unicode form: "
                    f"{line.strip()[:_COMPARED_CHARS]!a}. Write old_text with these characters, "
                    "then retry."
                )
    first = next((line.strip() for line in wanted.splitlines() if line.strip()), "")
    lines = {
        line.strip()[:_COMPARED_CHARS]: (number, line.rstrip("\r\n"))
        for number, line in enumerate(islice(lines_of(text), _COMPARED_LINES), 1)
        if line.strip()
    }
    if found := difflib.get_close_matches(first[:_COMPARED_CHARS], lines, n=1, cutoff=0.6):
        number, line = lines[found[0]]
        return (
            f"It must match exactly, with spaces and newlines; line {number} is near: "
            f"{line[:_COMPARED_CHARS]!r}. Read the file there, then retry."
        )
    return "It must match exactly, with spaces and newlines. Use read_file to see it, then retry."


_plain: Final = partial(unicodedata.normalize, "NFKC")

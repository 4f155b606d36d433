"""The tools that write, edit, delete, copy and move."""

from __future__ import annotations

import contextlib
import difflib
import unicodedata
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, Literal

from toolstile_hookspecs import Filesystem, ToolContext, ToolResult
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.text_files import (
    SNIFFED_BYTES,
    lines_of,
    marked_like,
    newlines_of,
    with_newlines,
)
from toolstile_plugins.vfs.tools.checks import ROOT, Checks, checking, shown, twin_of
from toolstile_plugins.vfs.tools.models import (
    CopyFile,
    Deleted,
    DeleteFile,
    Edited,
    EditFile,
    MoveFile,
    Transferred,
    WriteFile,
    Written,
    size_of,
)

_SHOWN_PLACES: Final = 10
_TOLD_PLACES: Final = 100
_COMPARED_LINES: Final = 5_000
_COMPARED_CHARS: Final = 200


@dataclass(frozen=True)
class Writing:
    """The handlers, with their limits."""

    config: VfsConfig

    def write_file(self, params: WriteFile, *, context: ToolContext) -> ToolResult[Written]:
        """Write a whole text file."""
        with checking(context, f"Cannot write {shown(params.path)}") as checks:
            files = checks.files
            before = checks.target(params.path, overwrite=params.overwrite)
            replaces = before is not None and before.kind == "file"
            start = _start_of(files, params.path) if replaces else b""
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
        """Replace a piece of text."""
        with checking(context, f"Cannot edit {shown(params.path)}") as checks:
            files = checks.files
            text = self._text(checks, params)
            newlines = newlines_of(text)
            params = _with_newlines_of(newlines, params)
            places = _places(text, params.old_text)
            _check_places(checks, params, text, places)
            changed = text.replace(params.old_text, params.new_text)
            size = _bytes_of(changed)
            checks.size(params.path, size, self.config.max_file_size, "Put in less text.")
            checks.pass_or_refuse()
            files.write(params.path, changed)
            size = files.stat(params.path).size
        message = (
            f"Replaced {counted(len(places), 'occurrence')} in {shown(params.path)}, at "
            f"{_at_lines(places)}."
        )
        if len(newlines) > 1 and "\n" in params.new_text:
            message += r" The file has lines with \n and with \r\n; those of new_text are as given."
        message = checks.noted(message)
        value = Edited(params.path, len(places), tuple(_lines(places)[:_TOLD_PLACES]), size)
        return ToolResult.ok(value, message=message)

    def delete_file(self, params: DeleteFile, *, context: ToolContext) -> ToolResult[Deleted]:
        """Delete a file or a directory."""
        with checking(context, f"Cannot delete {shown(params.path)}") as checks:
            files = checks.files
            stat = checks.existing(params.path)
            checks.writable(params.path)
            is_directory = stat is not None and stat.kind == "directory"
            if shown(params.path) == ROOT:
                checks.add("It cannot be deleted. Delete what it holds, one by one.")
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
        """Copy a file or a directory."""
        return self._transfer("copy", params, context)

    def move_file(self, params: MoveFile, *, context: ToolContext) -> ToolResult[Transferred]:
        """Move or rename a file or a directory."""
        return self._transfer("move", params, context)

    def _transfer(
        self, verb: Literal["copy", "move"], params: CopyFile | MoveFile, context: ToolContext
    ) -> ToolResult[Transferred]:
        source, target = params.source, params.target
        places = f"{shown(source)} to {shown(target)}"
        with checking(context, f"Cannot {verb} {places}") as checks:
            self._check_transfer(checks, params)
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

    def _check_transfer(self, checks: Checks, params: CopyFile | MoveFile) -> None:
        stat = checks.existing(params.source)
        there = checks.target(params.target, overwrite=params.overwrite)
        checks.writable(params.target)
        if stat is None:
            return
        if stat.kind == "directory":
            if there is not None and there.kind == "file":
                checks.add(
                    f"{shown(params.source)} is a directory and {shown(params.target)} a file. "
                    "Choose another target."
                )
        elif there is not None and checks.files.stat(params.source).path == there.path:
            checks.add("source and target are the same file. Choose another target.")
        checks.size(
            params.source,
            stat.size,
            self.config.max_file_size,
            "Such a file cannot be copied or moved with this tool.",
        )

    def _text(self, checks: Checks, params: EditFile) -> str:
        """Return the text to edit, once everything else is checked."""
        stat = checks.file(params.path)
        if stat is not None:
            checks.size(
                params.path,
                stat.size,
                self.config.max_file_size,
                "Such a file cannot be edited with this tool.",
            )
        checks.writable(params.path)
        if params.old_text == params.new_text:
            checks.add("old_text and new_text are the same. Give the text that is to be there.")
        checks.pass_or_refuse()
        return checks.files.read(params.path)


def count_files(files: Filesystem, path: str) -> int:
    """Return how many files there are at or beneath a path."""
    if files.stat(path).kind != "directory":
        return 1
    return sum(stat.kind != "directory" for stat in files.glob("**", path))


def _start_of(files: Filesystem, path: str) -> bytes:
    with contextlib.suppress(PermissionError), files.open(path, "rb") as stream:
        return stream.read(SNIFFED_BYTES)
    return b""


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


def _lines(places: list[int]) -> list[int]:
    return list(dict.fromkeys(places))


def _at_lines(places: list[int]) -> str:
    lines = _lines(places)
    if len(lines) == 1:
        return f"line {lines[0]}"
    shown_lines = [str(line) for line in lines[:_SHOWN_PLACES]]
    if len(lines) > _SHOWN_PLACES:
        return f"lines {', '.join(shown_lines)} and {len(lines) - _SHOWN_PLACES:,} more"
    return f"lines {', '.join(shown_lines[:-1])} and {shown_lines[-1]}"


def _with_newlines_of(newlines: frozenset[str], params: EditFile) -> EditFile:
    """Return an edit with the newlines of the file, unless it is these that it changes."""
    old, new = params.old_text, params.new_text
    if len(newlines) != 1 or with_newlines(old, "\n") == with_newlines(new, "\n"):
        return params
    (newline,) = newlines
    old, new = with_newlines(old, newline), with_newlines(new, newline)
    return replace(params, old_text=old, new_text=new)


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
    elif places and not params.replace_all:
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
            "otherwise than those of old_text. Give a piece without a line's end, or write each as "
            "the file does, then retry."
        )
    if (same := _line_that_looks_so(text, wanted)) is not None:
        number, line = same
        return (
            f"Line {number} looks the same, but is written in another Unicode form: "
            f"{line.strip()[:_COMPARED_CHARS]!a}. Write old_text with these characters, then retry."
        )
    near = _nearest_line(text, wanted)
    if near is not None:
        number, line = near
        return (
            f"It must match exactly, with spaces and newlines; line {number} is near: "
            f"{line[:_COMPARED_CHARS]!r}. Read the file there, then retry."
        )
    return "It must match exactly, with spaces and newlines. Use read_file to see it, then retry."


def _line_that_looks_so(text: str, wanted: str) -> tuple[int, str] | None:
    """Return the number and text of the first line that has a text in another Unicode form."""
    if _plain(wanted) not in _plain(text):
        return None
    missing = [_plain(part) for part in wanted.splitlines() if part not in text]
    lines = enumerate(lines_of(text), 1)
    return next(
        (found for found in lines if any(part in _plain(found[1]) for part in missing)), None
    )


_plain: Final = partial(unicodedata.normalize, "NFKC")


def _nearest_line(text: str, wanted: str) -> tuple[int, str] | None:
    """Return the number and text of the line most like the first one wanted."""
    first = next((line.strip() for line in wanted.splitlines() if line.strip()), "")
    lines = {
        line.strip()[:_COMPARED_CHARS]: (number, line.rstrip("\r\n"))
        for number, line in enumerate(islice(lines_of(text), _COMPARED_LINES), 1)
        if line.strip()
    }
    found = difflib.get_close_matches(first[:_COMPARED_CHARS], lines, n=1, cutoff=0.6)
    return lines[found[0]] if found else None

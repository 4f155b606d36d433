"""Lookup of paths and lines: nodes, matches by expressions, and errors that name what is there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from toolstile_hookspecs import ConflictError, FileMatch
from toolstile_hookspecs.support.patterns import NoSearchError, bounded
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.glob import Pattern
from toolstile_plugins.vfs.nodes import Content, Kind, Node, shown_target
from toolstile_plugins.vfs.text_files import line_blocks
from toolstile_plugins.vfs.write_set import Layer

_AT_ONCE: Final = 500


class Lookup:
    """The content of a layer, or an error; `notes` says what was passed by, and why."""

    __slots__ = ("_layer", "notes")

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self.notes = Notes()

    def node(self, path: str) -> Node:
        """Return the node at a path; raises `OSError` when nothing is there."""
        node = self._layer.look(path)
        if node is None:
            raise self._missing(path)
        return node

    def file(self, path: str) -> Content:
        """Return the content of the file at a path; raises `OSError` for anything else."""
        node = self.node(path)
        if node.kind == "directory":
            raise IsADirectoryError(f"{path or 'The root'} is a directory, not a file. List it.")
        return content_of(path, node)

    def check_directory(self, path: str) -> None:
        """Raise `OSError` unless there is a directory at a path."""
        node = self.node(path)
        if node.kind != "directory":
            raise NotADirectoryError(f"{path} is {what(node)}, not a directory.")

    def missing_parents(self, path: str) -> list[str]:
        """Return the missing directories above a path, the deepest first.

        Raises:
            OSError: When something else stands in the place of one.
        """
        missing: list[str] = []
        for directory in paths.ancestors(path):
            node = self._layer.look(directory)
            if node is not None:
                if node.kind != "directory":
                    raise _no_directory(directory, node)
                break
            missing.append(directory)
        return missing

    def _missing(self, path: str) -> OSError:
        for directory in paths.ancestors(path):
            node = self._layer.look(directory)
            if node is None:
                continue
            if node.kind != "directory":
                return _no_directory(directory, node)
            return FileNotFoundError(
                f"There is no {path}; the directory {directory} holds no such name. List it to "
                "see what there is."
            )
        return FileNotFoundError(f"There is no {path}. List the root to see what there is.")

    def matching(self, pattern: Pattern, directory: str) -> Iterator[tuple[str, Node]]:
        """Yield what matches, by directory and name."""
        for parent, names in pattern.walk(directory, self._names):
            yield from in_order(parent, names, self._nodes)

    def lines(self, search: Search, wanted: Pattern, directory: str) -> Iterator[FileMatch]:
        """Yield the matching lines of the files whose path matches."""
        for path, node in self.matching(wanted, directory):
            if node.content is None:
                continue
            # A file that cannot be read, or is being changed, does not end the search.
            try:
                yield from search.lines(path, node.content)
            except (OSError, ValueError, ConflictError) as error:
                self.notes.unsearched(path, error)

    def _names(self, directory: str) -> Mapping[str, Kind]:
        try:
            return self._layer.names(directory)
        except OSError as error:
            self.notes.left_out(directory, error)
            return {}

    def _nodes(self, directory: str, names: Sequence[str]) -> Mapping[str, Node]:
        try:
            return dict(self._layer.nodes(directory, names))
        except OSError as error:
            self.notes.left_out(directory, error)
            return {}


def in_order(
    directory: str,
    names: Sequence[str],
    nodes: Callable[[str, Sequence[str]], Mapping[str, Node] | Iterable[tuple[str, Node]]],
) -> Iterator[tuple[str, Node]]:
    """Yield the paths and nodes of names in a directory, in the order given.

    A part is looked at when it is asked for: of many, a page may be all that is shown.
    """
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        found = dict(nodes(directory, some))
        for name in some:
            if name in found:
                yield paths.join(directory, name), found[name]


def content_of(path: str, node: Node) -> Content:
    """Return the content of a file; raises `PermissionError` for other kinds."""
    if node.kind == "link":
        raise PermissionError(f"{path} is {what(node)}{_instead(path, node)}")
    if node.content is None:
        raise PermissionError(f"{path} is {what(node)}, and cannot be opened here.")
    return node.content


def _instead(path: str, link: Node) -> str:
    """Return the end of a sentence: where a link leads, by a path that can be used."""
    with suppress(OSError, ValueError):
        if not link.target.startswith("/"):
            there = paths.canonical(paths.join(paths.split(path)[0], link.target))
            if there != path:
                return f". Use {there or 'the root'} in its place, then retry."
    return ", and leads to nothing that can be used here."


def what(node: Node) -> str:
    """Return the name of a node's kind in messages."""
    if node.kind == "other":
        return node.special or "neither file nor directory"
    if node.kind == "link":
        return f"a symbolic link to {shown_target(node.target)}, which is not followed"
    return "a file" if node.kind == "file" else "a directory"


def _no_directory(path: str, node: Node) -> OSError:
    if node.kind == "file":
        return NotADirectoryError(
            f"{path} is a file, not a directory, so nothing can lie beneath it."
        )
    if node.kind == "link":
        return PermissionError(f"{path} is {what(node)}{_instead(path, node)}")
    return PermissionError(f"{path} is {what(node)}, so nothing can lie beneath it.")


# --- Notes


_SHOWN: Final = 5


class Notes:
    """Collects notes for the end of the call; of many alike it names the first few."""

    __slots__ = ("_left_out", "_said", "_unsearched")

    def __init__(self) -> None:
        self._said: dict[str, None] = {}
        self._left_out: dict[str, str] = {}
        self._unsearched: dict[str, str] = {}

    def say(self, text: str) -> None:
        """Keep a sentence, once."""
        self._said[text] = None

    def hidden(self, directory: str, names: Mapping[str, str]) -> None:
        """Keep that a directory holds names that no path can hold, each for a reason."""
        if names:
            verb = "is" if len(names) == 1 else "are"
            self.say(
                f"{counted(len(names), 'entry', 'entries')} of {directory or 'the root'} {verb} "
                f"left out, as no path here can lead there: {_listed(names, ascii)}."
            )

    def left_out(self, directory: str, error: Exception) -> None:
        """Keep that a directory could not be listed."""
        self._left_out[directory or "the root"] = _reason(error)

    def unsearched(self, path: str, error: Exception) -> None:
        """Keep that a file could not be searched."""
        self._unsearched[path] = _reason(error)

    def all(self) -> Sequence[str]:
        """Return what was kept, as sentences."""
        said = list(self._said)
        said += _summed_up(self._left_out, "directory", "directories", "left out")
        said += _summed_up(self._unsearched, "file", "files", "not searched")
        return said


def _summed_up(reasons: dict[str, str], thing: str, things: str, fate: str) -> list[str]:
    if not reasons:
        return []
    verb = "was" if len(reasons) == 1 else "were"
    total = counted(len(reasons), thing, things)
    return [f"{total} {verb} {fate}: {_listed(reasons, str)}."]


def _listed(reasons: Mapping[str, str], show: Callable[[str], str]) -> str:
    shown = [f"{show(name)} ({reason})" for name, reason in islice(reasons.items(), _SHOWN)]
    more = len(reasons) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _reason(error: Exception) -> str:
    if isinstance(error, ConflictError):
        return "it was being changed"
    # Its remedy is for a call that wants this very one.
    return str(error).partition(". ")[0].rstrip(".") or type(error).__name__


_MAX_PATTERN_CHARACTERS: Final = 10_000
# What means something else in a block of lines than in one of them.
_BY_LINE_ONLY: Final = re.compile(r"\\[AzQC]|\(\?[a-zA-Z]*-")
MAX_LINE_CHARACTERS: Final = 2_000
"""Of a longer line the beginning is shown, with what is left out said behind it."""


class Search:
    """A compiled expression.

    RE2 looks at each byte once, so no expression can take forever, and lets go of the
    interpreter's lock meanwhile. It knows no look-around and no back-references.

    Raises:
        ValueError: When it is not such an expression.
    """

    __slots__ = ("_pattern", "_prefilter")

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _MAX_PATTERN_CHARACTERS:
            raise ValueError(
                f"The regular expression has {len(pattern)} characters; "
                f"{_MAX_PATTERN_CHARACTERS} at most."
            )
        self._pattern = _compile(pattern, pattern)
        # One look at a whole block tells that none of its lines can match.
        by_line = _BY_LINE_ONLY.search(pattern) is not None
        self._prefilter = None if by_line else _compile(f"(?m:{pattern})", pattern)

    def lines(self, path: str, content: Content) -> Iterator[FileMatch]:
        """Yield the matching lines of a text file; raises `ValueError` for a line too long."""
        number = 1
        with content.open() as stream:
            for block in line_blocks(stream, path):
                if not self._cannot_match(block):
                    for offset, line in enumerate(block.removesuffix(b"\n").split(b"\n")):
                        text = line.removesuffix(b"\r")
                        if self._pattern.search(text):
                            yield FileMatch(path, number + offset, _shown(text))
                number += block.count(b"\n")

    def _cannot_match(self, block: bytes) -> bool:
        # The end of a line is before its \r, which a look at the block does not know.
        return (
            self._prefilter is not None and b"\r" not in block and not self._prefilter.search(block)
        )


def _compile(pattern: str, shown: str) -> Any:
    try:
        return bounded(pattern.encode())
    except NoSearchError:
        raise
    except ValueError as error:
        raise ValueError(
            f"{shown[:200]!r} is not a regular expression that can be searched for: {error}. "
            "The syntax is RE2's, without look-around and back-references; put a backslash "
            "before characters meant as they are."
        ) from None


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace")
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    return f"{text[:MAX_LINE_CHARACTERS]}... ({len(text) - MAX_LINE_CHARACTERS} more characters)"

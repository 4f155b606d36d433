"""Canonical paths, and a plain refusal for text that cannot be a path.

`./a`, `a//b/../c`, `a/` and `/workspace/a` are other spellings of `a`, `a/c`, `a` and `a`; the
root is the empty string. Unicode is never normalised, as in file systems: two spellings of one
word are two names.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from toolstile_plugins.vfs.nodes import Kind

ALIAS: Final = "/workspace"
"""The root as an absolute path."""

RESERVED: Final = ".toolstile"
"""The name that a workspace reserves in any directory, in any case."""

NO_NAMES: Final = frozenset({"", ".", ".."})
"""The parts of a path that are not names."""

MAX_NAME_BYTES: Final = 255
MAX_DEPTH: Final = 128
_MAX_PATH_CHARACTERS: Final = 32_768

_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff\\\\]")
_DRIVE: Final = re.compile(r"[A-Za-z]:")


def canonical(path: str) -> str:
    r"""Return the one form of a path.

    Raises:
        PermissionError: It leads outside the workspace, or to the reserved name.
        ValueError: It cannot be a path.

    Example:
        >>> canonical("/workspace/./docs//a.txt")
        'docs/a.txt'
        >>> canonical("docs/..")
        ''
    """
    if len(path) > _MAX_PATH_CHARACTERS:
        raise ValueError(f"The path has {len(path)} characters; {_MAX_PATH_CHARACTERS} at most.")
    _check_characters(path)
    relative = path
    if path.startswith("/"):
        if path != ALIAS and not path.startswith(f"{ALIAS}/"):
            raise PermissionError(
                f"The path {_shown(path)} is absolute. Give it relative to the workspace, as in "
                f"src/main.py; only {ALIAS}/... is taken for the root."
            )
        relative = path[len(ALIAS) :]
    names: list[str] = []
    for name in relative.split("/"):
        if name == "..":
            if not names:
                raise PermissionError(
                    f"The path {_shown(path)} leads outside the workspace, which cannot be left. "
                    "Give a path relative to its root."
                )
            names.pop()
        elif name not in {"", "."}:
            names.append(name)
    _check_names(path, names)
    return "/".join(names)


def is_usable(name: str) -> bool:
    """Return whether a name found in a directory can be a part of a path."""
    return (
        not _FORBIDDEN.search(name)
        and name.casefold() != RESERVED
        and len(name.encode()) <= MAX_NAME_BYTES
    )


def why_unusable(name: str) -> str:
    """Return why a name found in a directory cannot be a part of a path."""
    bad = _FORBIDDEN.search(name)
    if bad is None:
        reserved = name.casefold() == RESERVED
        return "the workspace keeps this name for itself" if reserved else "it is too long"
    if bad[0] == "\\":
        return "it has a backslash"
    return "it has a control character" if bad[0] < "\x80" else "it has bytes that are not UTF-8"


def depth(path: str) -> int:
    """Return the number of names in a canonical path."""
    return path.count("/") + 1 if path else 0


def join(directory: str, name: str) -> str:
    """Return the path of a name in a directory, both canonical."""
    return f"{directory}/{name}" if directory else name


def split(path: str) -> tuple[str, str]:
    """Return the directory of a canonical path, and its name there."""
    directory, _, name = path.rpartition("/")
    return directory, name


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories above a canonical path, nearest first, without the root."""
    directory = path.rpartition("/")[0]
    while directory:
        yield directory
        directory = directory.rpartition("/")[0]


def is_within(path: str, directory: str) -> bool:
    """Return whether a canonical path is the directory or lies beneath it."""
    return not directory or path == directory or path.startswith(f"{directory}/")


def _check_characters(path: str) -> None:
    if _DRIVE.match(path):
        raise PermissionError(
            f"The path {_shown(path)} names a drive. Give it relative to the workspace, with /, as "
            "in src/main.py."
        )
    bad = _FORBIDDEN.search(path)
    if bad is None:
        return
    character = bad[0]
    if character == "\\":
        raise ValueError(
            f"The path {_shown(path)} holds a backslash. Write paths with /, as in src/main.py."
        )
    what = "NUL" if character == "\0" else f"the character U+{ord(character):04X}"
    raise ValueError(f"The path {_shown(path)} holds {what}, which no path here can hold.")


def _check_names(path: str, names: list[str]) -> None:
    if len(names) > MAX_DEPTH:
        raise ValueError(f"The path is {len(names)} directories deep; {MAX_DEPTH} at most.")
    for name in names:
        if name.casefold() == RESERVED:
            raise PermissionError(
                f"{_shown(path)} cannot be used: the workspace keeps {RESERVED} for itself."
            )
        if len(name.encode()) > MAX_NAME_BYTES:
            raise ValueError(
                f"The name {_shown(name)} has {len(name.encode())} bytes; {MAX_NAME_BYTES} at "
                "most. Choose a shorter one."
            )


def _shown(path: str) -> str:
    text = path if len(path) <= 80 else f"{path[:60]}...{path[-15:]}"  # noqa: PLR2004 - a line
    return ascii(text) if _FORBIDDEN.search(text) else f'"{text}"'


# --- Glob patterns, matched in time that grows with pattern times name


_MAX_ALTERNATIVES: Final = 256
_MAX_CHARACTERS: Final = 4096

#: A place in one of the alternatives: its index, and how many of its parts are matched.
_Place = tuple[int, int]


class Pattern:
    """A compiled pattern.

    `*`, `?` and `[...]` stay within a name, `**` stands for any number of directories, and
    `{a,b}` for either. At the end, `**` stands for everything beneath, and `/` for directories
    only. Names that begin with a dot match like any other.

    Raises:
        PermissionError: When it leads outside the workspace.
        ValueError: When it is empty, too long, or has too many alternatives.

    Example:
        >>> Pattern("src/**/*.{py,pyi}").matches("src/main.py")
        True
    """

    __slots__ = ("_alternatives", "_directories_only")

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _MAX_CHARACTERS:
            raise ValueError(
                f"The glob pattern has {len(pattern)} characters; {_MAX_CHARACTERS} at most."
            )
        self._directories_only = pattern.endswith("/")
        self._alternatives = [_compile(alternative) for alternative in alternatives(pattern)]
        if not all(self._alternatives):
            raise ValueError("The glob pattern is empty. Use ** for everything, *.py for some.")

    def walk(
        self, root: str, names_of: Callable[[str], Mapping[str, Kind]]
    ) -> Iterator[tuple[str, list[str]]]:
        """Yield each directory with matching names in it, sorted; visit only where some can be."""
        pending = [(root, self._start())]
        while pending:
            directory, places = pending.pop()
            entries = names_of(directory)
            names = sorted(entries)
            matching: list[str] = []
            below: list[tuple[str, frozenset[_Place]]] = []
            for name in names:
                after = self._step(places, name)
                if not after:
                    continue
                is_directory = entries[name] == "directory"
                if self._is_match(after) and (is_directory or not self._directories_only):
                    matching.append(name)
                is_deep = depth(directory) >= MAX_DEPTH - 1
                continues = any(place < len(self._alternatives[index]) for index, place in after)
                if is_directory and not is_deep and continues:
                    below.append((join(directory, name), after))
            if matching:
                yield directory, matching
            pending.extend(reversed(below))

    def matches(self, path: str) -> bool:
        places = self._start()
        for name in path.split("/"):
            places = self._step(places, name)
        return self._is_match(places)

    def _start(self) -> frozenset[_Place]:
        return self._past_stars(frozenset((index, 0) for index in range(len(self._alternatives))))

    def _step(self, places: frozenset[_Place], name: str) -> frozenset[_Place]:
        after: set[_Place] = set()
        for index, place in places:
            parts = self._alternatives[index]
            if place == len(parts):
                continue
            part = parts[place]
            if part is None:
                after.add((index, place))
                if place + 1 == len(parts):
                    after.add((index, place + 1))
            elif part.match(name):
                after.add((index, place + 1))
        return self._past_stars(frozenset(after))

    def _past_stars(self, places: frozenset[_Place]) -> frozenset[_Place]:
        """Add the places behind each `**`; only a `**` at the end must stand for a name."""
        added = set(places)
        for index, start in places:
            parts, place = self._alternatives[index], start
            while place < len(parts) - 1 and parts[place] is None:
                place += 1
                added.add((index, place))
        return frozenset(added)

    def _is_match(self, places: frozenset[_Place]) -> bool:
        return any(place == len(self._alternatives[index]) for index, place in places)


def _compile(pattern: str) -> list[re.Pattern[str] | None]:
    """Return a matcher for each part; None for `**`."""
    if pattern.startswith("/") and not (pattern == ALIAS or pattern.startswith(f"{ALIAS}/")):
        raise PermissionError(
            f"The glob pattern {pattern!r} is absolute. Give it relative to the workspace."
        )
    parts: list[re.Pattern[str] | None] = []
    for name in pattern.removeprefix(ALIAS).split("/"):
        if name == "..":
            raise PermissionError(
                f"The glob pattern {pattern!r} holds .., which cannot be used here."
            )
        if name in {"", "."}:
            continue
        if name != "**":
            # Since Python 3.9 its expressions do not backtrack from one star into another.
            parts.append(re.compile(fnmatch.translate(name)))
        elif not parts or parts[-1] is not None:
            parts.append(None)
    return parts


def alternatives(pattern: str) -> list[str]:
    """Return the patterns without braces that a pattern stands for."""
    done: list[str] = []
    pending = [pattern]
    while pending:
        candidate = pending.pop()
        choice = _first_choice(candidate)
        if choice is None:
            done.append(candidate)
        else:
            before, options, after = choice
            pending.extend(before + option + after for option in reversed(options))
        if len(done) + len(pending) > _MAX_ALTERNATIVES:
            raise ValueError(
                f"The braces of the glob pattern give more than {_MAX_ALTERNATIVES} "
                "alternatives. Use fewer, or several patterns."
            )
    return done


def _first_choice(pattern: str) -> tuple[str, list[str], str] | None:
    """Return the text before the first `{a,b}`, its options, and the text behind it."""
    opened: list[int] = []
    commas: list[list[int]] = []
    for position, character in enumerate(pattern):
        if character == "{":
            opened.append(position)
            commas.append([])
        elif character == "," and opened:
            commas[-1].append(position)
        elif character == "}" and opened:
            start, cuts = opened.pop(), commas.pop()
            if cuts:
                edges = [start, *cuts, position]
                options = [pattern[left + 1 : right] for left, right in pairwise(edges)]
                return pattern[:start], options, pattern[position + 1 :]
    return None

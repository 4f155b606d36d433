"""Glob patterns, matched in time that grows with pattern times name, whatever they hold."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.nodes import Kind

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
                is_deep = paths.depth(directory) >= paths.MAX_DEPTH - 1
                goes_on = any(place < len(self._alternatives[index]) for index, place in after)
                if is_directory and not is_deep and goes_on:
                    below.append((paths.join(directory, name), after))
            if matching:
                yield directory, matching
            pending.extend(reversed(below))

    def matches(self, path: str) -> bool:
        """Tell whether a canonical path matches."""
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
        """Add the places behind a `**`, which may stand for nothing unless it is the end."""
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
    if pattern.startswith("/") and not (
        pattern == paths.ALIAS or pattern.startswith(f"{paths.ALIAS}/")
    ):
        raise PermissionError(
            f"The glob pattern {pattern!r} is absolute. Give it relative to the workspace."
        )
    parts: list[re.Pattern[str] | None] = []
    for name in pattern.removeprefix(paths.ALIAS).split("/"):
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
    """Return a pattern without braces for each choice they give."""
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
    """Return the first `{a,b}` whose braces match, with what is before and behind it."""
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

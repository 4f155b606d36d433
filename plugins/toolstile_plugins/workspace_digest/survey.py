"""A look at a workspace: the files that are not ignored, bounded, and their states."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from toolstile_hookspecs import FileStat, Filesystem
from toolstile_plugins.vfs.paths import ancestors, join, split
from toolstile_plugins.workspace_digest.model import Source
from toolstile_plugins.workspace_digest.settings import DigestConfig

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_IGNORE_FILE: Final = ".gitignore"
_MOST_NAMES: Final = 100
"""Larger directories are not listed again to find out whether they have changed."""

_SETTLED: Final = timedelta(seconds=2)
"""A file that was changed later than that before it was read may change in the same instant."""

Texts = dict[str, tuple[FileStat, str | None]]
"""Texts that were read, None for what is none, with the files as they were."""


class Survey:
    """One look at a workspace; `sources` says what was looked at.

    Args:
        files: The workspace; only what it shows is looked at.
        config: The bounds.
        texts: The texts of earlier looks, which are not read again.
    """

    def __init__(self, files: Filesystem, config: DigestConfig, texts: Texts | None = None) -> None:
        self._files = files
        self._config = config
        self._always = _spec_of(config.exclude)
        self._specs: dict[str, GitIgnoreSpec | None] = {}
        self._texts: Texts = {} if texts is None else texts
        self._read: dict[str, str] = {}

    def walk(self, top: str) -> Iterator[tuple[str, list[FileStat]]]:
        """Yield directories, the nearest first, with what they hold: directories first, by name."""
        waiting, room = deque([top]), self._config.max_files
        while waiting and room > 0:
            directory = waiting.popleft()
            entries = self.entries(directory, room)
            room -= len(entries)
            waiting += (entry.path for entry in entries if entry.kind == "directory")
            yield directory, entries

    def entries(self, directory: str, most: int) -> list[FileStat]:
        """Return what a directory holds, without what is ignored; nothing where it is closed."""
        return self._kept(self._found(directory, most))

    def _found(self, directory: str, most: int) -> list[FileStat]:
        try:
            return list(islice(self._files.glob("*", directory), most))
        except (OSError, ValueError):
            return []

    def _kept(self, found: list[FileStat]) -> list[FileStat]:
        kept = [entry for entry in found if not self._is_ignored(entry)]
        return sorted(kept, key=lambda entry: (entry.kind != "directory", entry.path))

    def text(self, path: str) -> str | None:
        """Return a text file, or None: it is not there, too large, or not text."""
        try:
            stat = self._files.stat(path)
            if stat.kind != "file" or stat.size > self._config.max_file_size:
                return None
            known, content = self._texts.get(path, (None, None))
            if known != stat:
                content = self._read_text(stat)
        except (OSError, ValueError):
            return None
        if content is not None:
            encoded = content.encode("utf-8", "surrogatepass")
            self._read[path] = hashlib.sha256(encoded).hexdigest()
        return content

    def _read_text(self, stat: FileStat) -> str | None:
        now = datetime.now(UTC)
        try:
            content = self._files.read(stat.path)
        except ValueError:  # binary
            content = None
        if stat.digest is not None or (stat.modified and now - stat.modified > _SETTLED):
            self._texts[stat.path] = stat, content
        return content

    def sources(self, shown: Iterable[FileStat], directories: Iterable[str]) -> tuple[Source, ...]:
        """Return the states of entries, of directories, and of what was read.

        Of ignore files, those of the directories count.
        """
        states = {entry.path: _listed(entry) for entry in shown}
        within = {*directories}
        states |= {path: names for path in within if (names := self._names(path)) is not None}
        read = {
            path: hash_
            for path, hash_ in self._read.items()
            if split(path)[1] != _IGNORE_FILE or split(path)[0] in within
        }
        return tuple(Source(path, state) for path, state in sorted({**states, **read}.items()))

    def changed(self, sources: Iterable[Source]) -> list[str]:
        """Return the paths whose states are others now; of new files in a directory, theirs."""
        known = {source.path: source.state for source in sources}
        changed: dict[str, None] = {}
        for path, state in known.items():
            if state.startswith("names:"):
                if (names := self._names(path)) != state:
                    changed |= dict.fromkeys(self._others(path, known, is_listed=names is not None))
            elif self._state(path, is_read=":" not in state) != state:
                changed[path] = None
        return sorted(changed)

    def _state(self, path: str, *, is_read: bool) -> str | None:
        if is_read:
            return None if self.text(path) is None else self._read[path]
        try:
            return _listed(self._files.stat(path))
        except (OSError, ValueError):
            return None

    def _names(self, directory: str) -> str | None:
        """Return the hash of the names in a directory; None for a large one, or none."""
        there = self._state(directory, is_read=False) or ""
        if directory and not there.startswith("directory:"):
            return None
        found = self._found(directory, _MOST_NAMES + 1)
        if len(found) > _MOST_NAMES:
            return None
        return _hash_of_names(entry.path for entry in self._kept(found))

    def _others(self, directory: str, known: dict[str, str], *, is_listed: bool) -> Iterator[str]:
        """Yield what is new in a directory of which all was shown, else the directory."""
        within = [path for path in known if path and split(path)[0] == directory]
        now = self.entries(directory, _MOST_NAMES) if is_listed else []
        if known[directory] != _hash_of_names(within) or not is_listed:
            yield f"{directory}/"
        else:
            yield from (entry.path for entry in now if entry.path not in known)

    def _is_ignored(self, entry: FileStat) -> bool:
        path = f"{entry.path}/" if entry.kind == "directory" else entry.path
        for directory in (*ancestors(entry.path), ""):
            if directory not in self._specs:
                text = self.text(join(directory, _IGNORE_FILE))
                self._specs[directory] = None if text is None else _spec_of(text.splitlines())
            spec = self._specs[directory]
            if spec is not None:
                decided = spec.check_file(path[len(directory) + 1 :] if directory else path).include
                if decided is not None:
                    return decided
        return self._always.check_file(path).include is True


def _spec_of(lines: Iterable[str]) -> GitIgnoreSpec:
    """Return the rules of lines, without those that are none, as git reads them."""
    # Late, as most hosts show no digest.
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore import GitIgnorePatternError

    usable: list[str] = []
    for line in lines:
        with suppress(GitIgnorePatternError):
            GitIgnoreSpec.from_lines([line])
            usable.append(line)
    return GitIgnoreSpec.from_lines(usable)


def _listed(entry: FileStat) -> str:
    leads = "" if entry.target is None else ascii(entry.target)
    return f"{entry.kind}:{entry.size}{leads}"


def _hash_of_names(paths: Iterable[str]) -> str:
    return "names:" + hashlib.sha256("\0".join(sorted(paths)).encode()).hexdigest()

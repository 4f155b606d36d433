"""The harvest: what a command has changed becomes changes of its call."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from toolstile_hookspecs import Filesystem
from toolstile_hookspecs.services.layers import SupportsLayers
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.sandbox.entries import Entry
from toolstile_plugins.sandbox.layout import Layout
from toolstile_plugins.vfs import paths

SHOWN: Final = 50
_NAMED: Final = 5
_PERMISSIONS: Final = 0o777
_USUAL: Final = {"file": 0o644, "directory": 0o755}


class HarvestError(Exception):
    """Something that a command has left cannot be kept; the text names all of it."""


class Harvest:
    """Takes over what a command has left.

    Args:
        files: The workspace of the call.
        layout: The workspace as it was laid out.

    Attributes:
        changed: The first paths that were changed, each after `A`, `M` or `D`.
        count: How many there are.
        left_out: What is not kept, as it is nothing but for processes that run, by path.
        closed: What the command could not see, as this user cannot read it.
    """

    def __init__(self, files: Filesystem, layout: Layout) -> None:
        self._files = files
        self._layout = layout
        self._refused: dict[str, str] = {}
        self.changed: list[str] = []
        self.count = 0
        self.left_out: dict[str, str] = {}
        self.closed = layout.closed

    def take(self, entries: Iterable[Entry]) -> None:
        """Make what the entries say changes of the call.

        Raises:
            HarvestError: When something cannot be kept; the call has to fail.
            ConflictError: When somebody else has changed it meanwhile.
        """
        for entry in entries:
            try:
                self._take(entry)
            except (OSError, ValueError) as error:
                self._refused[ascii(entry.path)] = str(error)
        if self._refused:
            named = list(self._refused.items())[:_NAMED]
            more = len(self._refused) - len(named)
            told = "\n".join(f"- {path}: {reason}" for path, reason in named)
            raise HarvestError(
                f"{counted(len(self._refused), 'change')} of the command cannot be kept, so "
                f"nothing of it was:\n{told}"
                + (f"\n- and {more} more" if more else "")
                + "\nLeave these paths as they are, or choose other names; then retry."
            )

    def _take(self, entry: Entry) -> None:
        path = entry.path
        if entry.kind == "other":
            self.left_out[path] = entry.special
            if not self._is_there(path):
                return
            # It took the place of something.
            entry = replace(entry, kind="gone")
        self._check(entry)
        there = self._files.stat(path) if self._files.exists(path) else None
        if entry.kind == "directory":
            if there is not None and (entry.replaces or there.kind != "directory"):
                self._remove(path)
                there = None
            self._keep_directory(entry, None if there is None else there.mode, new=there is None)
            return
        if there is not None and (entry.kind != "file" or there.kind == "directory"):
            self._remove(path)
        elif entry.kind == "gone":
            return
        self._note("D" if entry.kind == "gone" else "M" if there is not None else "A", path)
        if entry.kind == "link":
            self._files.link(path, entry.target)
        elif entry.kind == "file":
            self._keep_file(entry)

    def _remove(self, path: str) -> None:
        try:
            self._files.delete(path, recursive=True)
        except PermissionError as error:
            remedy = "Let one command change modes alone, and the next remove what they closed."
            raise PermissionError(f"{error} {remedy}") from error

    def _is_there(self, path: str) -> bool:
        with suppress(OSError, ValueError):
            return self._files.exists(path)
        return False

    def _keep_file(self, entry: Entry) -> None:
        source = f"{self._layout.upper}/{entry.path}"
        if not entry.mode & stat.S_IRUSR:
            # The mode is kept, yet what is read has to be readable.
            os.chmod(source, entry.mode | stat.S_IRUSR)  # noqa: PTH101 - of a text
        if isinstance(self._files, SupportsLayers):
            self._files.take(
                entry.path,
                source,
                mode=entry.mode & _PERMISSIONS,
                modified=entry.modified,
                keeper=self._layout.scratch,
            )
            return
        with open(source, "rb") as left:  # noqa: PTH123 - of a text
            self._files.write_bytes(entry.path, left.read())
        self._files.chmod(entry.path, entry.mode & _PERMISSIONS)

    def _keep_directory(self, entry: Entry, before: int | None, *, new: bool) -> None:
        mode = entry.mode & _PERMISSIONS
        if new:
            self._files.mkdir(entry.path)
            self._note("A", f"{entry.path}/")
        # Of a directory that is replaced, the workspace keeps the mode unless it is told one.
        former = _USUAL["directory"] if before is None else before & _PERMISSIONS
        if entry.replaces or mode != former:
            self._files.chmod(entry.path, mode)
            if not new:
                self._note("M", f"{entry.path}/")

    def _check(self, entry: Entry) -> None:
        """Raise where a path cannot be one, or holds something that the command did not see."""
        path = paths.canonical(entry.path)
        if path != entry.path:
            raise ValueError("it is no path of the workspace")
        for hidden in self._layout.hidden:
            if paths.is_within(path, hidden):
                if entry.kind != "gone":
                    raise PermissionError("commands cannot see what is there, so it stays as it is")
            elif (entry.kind == "gone" or entry.replaces) and paths.is_within(hidden, path):
                raise PermissionError(
                    f"it holds {hidden}, which commands cannot see, so it stays as it is"
                )

    def _note(self, letter: str, path: str) -> None:
        self.count += 1
        if len(self.changed) < SHOWN:
            self.changed.append(f"{letter} {path}")

"""The store of undos: a directory with the former files of each call, and its bounds."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import Filesystem, ToolstileError
from toolstile_hookspecs.codecs import loaded, type_name
from toolstile_hookspecs.execution.undo import UndoNote
from toolstile_plugins.undo.settings import UndoSettings

log = logging.getLogger("toolstile.undo")

RECORD: Final = "decided"
PREPARED: Final = "prepared"  # the record of a call that is not decided yet, without files
_DIGESTS: Final = "digests"  # of the contents by name; empty for dropped ones
_PAUSE: Final = 60.0
_AGE: Final = 12
"""The digits of an entry's name that are its time, in milliseconds since 1970."""


class UndoStore:
    """The former files of calls, each call in a directory that its commit has moved here."""

    def __init__(self, settings: UndoSettings) -> None:
        self.settings = settings
        self.directory = settings.directory

    def notes(self) -> Iterator[UndoNote]:
        """Yield the notes of the calls that are kept here, the oldest first."""
        for entry in self._entries():
            if undo := _json_in(entry / RECORD).get("undo"):
                try:
                    note: UndoNote = loaded(UndoNote, [undo["note"]])[0]
                except (ToolstileError, KeyError, TypeError) as error:
                    log.warning(
                        "%s is damaged (%s), so it undoes no call. Remove it.", entry, error
                    )
                    continue
                files = [(type_name(Filesystem), str(entry))] if "reverse" in undo else []
                yield replace(note, parts=(*note.parts, *files))

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """Keep the notes without files of the calls that were decided when their process died."""
        for file in self.directory.glob(f"*/{PREPARED}"):
            with suppress(OSError, ToolstileError):
                if (key := _json_in(file).get("key")) is not None and decided(key):
                    file.replace(file.with_name(RECORD))

    def paths_of(self, note: UndoNote) -> list[str]:
        """Return the paths that a call has changed; a last text counts the dropped contents."""
        found: list[str] = []
        for type_, text in note.parts:
            if (reverse := self._reverse_in(type_, text)) is None:
                found.append(type_.rpartition(":")[2])
                continue
            found += reverse.get("made", ["all dropped"])
            if dropped := [*_json_in(Path(text, _DIGESTS)).values()].count(""):
                found.append(f"{dropped} dropped")
        return found

    def is_in(self, note: UndoNote, root: Path) -> bool:
        """Return whether a call may have changed files of a workspace, and of no other."""
        reverses = (self._reverse_in(*part) or {} for part in note.parts)
        return {each.get("root") for each in reverses} <= {None, str(root.resolve())}

    def _reverse_in(self, type_: str, text: str) -> dict[str, Any] | None:
        """Return the reverse of changed files, empty if it was dropped; None for other parts."""
        if type_ != type_name(Filesystem) and not text.startswith("{"):
            return None
        if not text.startswith("{"):
            text = _json_in(Path(text, RECORD)).get("undo", {}).get("reverse", "{}")
        found: dict[str, Any] = json.loads(text)
        return found

    def purge(self, notes: Collection[UndoNote]) -> int:
        """Remove the files of calls, of all without any; return the number of calls."""
        ids = {note.id for note in notes}
        noted = ((each, _json_in(each / RECORD).get("undo", {})) for each in self._entries())
        entries = [each for each, undo in noted if not ids or undo.get("note", {}).get("id") in ids]
        for entry in entries:
            shutil.rmtree(entry, ignore_errors=True)
        return len(entries)

    def _entries(self) -> list[Path]:
        # Without entries that are being copied from another file system.
        return sorted(each for each in self.directory.glob("*") if each.name.isalnum())

    # --- bounds

    def tidy_until(self, ended: threading.Event) -> None:
        """Keep the store within its bounds until the host has closed."""
        while True:
            try:
                self.tidy(time.time())
            except OSError:
                log.exception("The store of undos %s cannot be kept small.", self.directory)
            if ended.wait(_PAUSE):
                return

    def tidy(self, now: float) -> None:
        """Drop old and large contents, and the oldest if there are too many; keep equal ones once.

        Args:
            now: The time, in seconds since 1970.
        """
        first: dict[str, Path] = {}
        size = 0
        for entry in reversed(self._entries()):
            is_old = int(entry.name[:_AGE], 16) < (now - self.settings.keep) * 1_000
            size += 0 if is_old else self._keep_once(entry, first)
            if is_old or size > self.settings.most:
                shutil.rmtree(entry, ignore_errors=True)

    def _keep_once(self, entry: Path, first: dict[str, Path]) -> int:
        """Drop the large files of an entry, link the others to equal ones; return its new bytes."""
        digests, size = _json_in(entry / _DIGESTS), 0
        for file in list(entry.iterdir()):
            status, is_content = file.lstat(), "-" in file.name and not file.is_symlink()
            if is_content and status.st_size > self.settings.file:
                file.unlink()
                digests[file.name] = ""
                continue
            equal = file
            with suppress(OSError):
                if is_content and file.name not in digests:
                    with file.open("rb") as stream:
                        digests[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
                equal = first.setdefault(digests.get(file.name, str(file)), file)
                if equal is not file and not equal.samefile(file):
                    os.link(equal, spare := entry / "spare")
                    spare.replace(file)
            size += status.st_size if equal is file else 0
        (entry / _DIGESTS).write_text(json.dumps(digests))
        return size


def _json_in(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, TypeError):
        return dict(json.loads(file.read_bytes()))
    return {}

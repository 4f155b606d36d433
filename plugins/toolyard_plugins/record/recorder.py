"""Writes down every call that passes a host."""

from __future__ import annotations

import logging
from threading import Lock
from typing import Any

from toolyard_hookspecs import NOTICE, Clock, SnapshotError, ToolInvoked, hookimpl
from toolyard_plugins.record.errors import RecordError
from toolyard_plugins.record.lines import FORMAT, VERSION
from toolyard_plugins.record.noting import fields_of, joined, written
from toolyard_plugins.record.writing import RecordFile

log = logging.getLogger("toolyard.record")


class Recorder:
    """A plugin that writes a line for each call, whatever becomes of it.

    A line that cannot be written is logged and changes nothing of the call; the next one that
    can be says how many are missing.

    Args:
        file: Where to.
        clock: Tells when the run begins and ends.

    Example:
        >>> host.register(Recorder(RecordFile(path), host.clock))  # doctest: +SKIP
    """

    def __init__(self, file: RecordFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._lock = Lock()
        self._lost = 0
        self._begun = False

    @hookimpl
    def toolyard_telemetry(self, event: ToolInvoked, changes: str | SnapshotError) -> None:
        """Write the call's line."""
        try:
            fields = fields_of(event, changes)
            lost = self._lost
            if lost:
                fields.append(f'"lost":{lost}')
            if not self._begun:
                self._begin()
            self._file.append(joined(fields))
        except Exception:
            self._count(1)
            raise
        if lost:
            self._count(-lost)

    def close(self) -> None:
        """Write that the run ended, where it began, and close the file."""
        try:
            if self._begun:
                end = {"kind": "end", "at": self._clock.now().isoformat()}
                self._file.append(written(end))
        except (OSError, RecordError):
            log.exception("The end of the record could not be written.", extra=NOTICE)
        finally:
            if self._lost:
                log.warning(
                    "The record is not complete: %s at its end could not be written.",
                    "1 call" if self._lost == 1 else f"{self._lost:,} calls",
                    extra=NOTICE,
                )
            self._file.close()

    def _begin(self) -> None:
        with self._lock:
            if self._begun:
                return
            begin: dict[str, Any] = {"kind": "begin", "format": FORMAT, "version": VERSION}
            begin["at"] = self._clock.now().isoformat()
            if self._file.torn:
                begin["torn"] = self._file.torn
            self._file.append(written(begin))
            self._begun = True

    def _count(self, more: int) -> None:
        with self._lock:
            self._lost += more

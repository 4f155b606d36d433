"""The recorder: a line for every call that passes a host."""

from __future__ import annotations

import logging
from threading import Lock
from typing import Any

from toolstile_hookspecs import NOTICE, Clock, SnapshotError, ToolInvoked, hookimpl
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.record.file import RecordFile
from toolstile_plugins.record.schema import FORMAT, VERSION, RecordError
from toolstile_plugins.record.serialize import fields_of, joined, written

log = logging.getLogger("toolstile.record")


class Recorder:
    """A plugin that writes a line for each call, whatever becomes of it.

    A line that cannot be written is logged and changes nothing of the call; the next one that
    can be, of a call or of the end, says how many are missing.

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
        self._why = ""
        self._begun = False

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked, changes: str | SnapshotError) -> None:
        """Write the call's line."""
        lost = self._taken() if self._lost else 0
        try:
            fields = fields_of(event, changes)
            if lost:
                fields.append(f'"lost":{lost}')
            if not self._begun:
                self._begin()
            self._file.append(joined(fields))
        except BaseException as error:
            self._count(lost)
            if isinstance(error, Exception):
                self._why = _told(error)
                self._count(1)
            raise

    def close(self) -> None:
        """Write that the run ended and what of it is lost, and close the file."""
        try:
            if self._lost and not self._begun:
                self._begin()
            if self._begun:
                self._end()
        except (OSError, RecordError) as error:
            self._why = _told(error)
            log.exception("The end of the record could not be written: %s", self._why, extra=NOTICE)
        finally:
            if self._lost:
                log.warning(
                    "The record is not complete: %s at its end could not be written: %s",
                    counted(self._lost, "call"),
                    self._why,
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

    def _end(self) -> None:
        end: dict[str, Any] = {"kind": "end", "at": self._clock.now().isoformat()}
        if self._lost:
            end["lost"] = self._lost
        self._file.append(written(end))

    def _taken(self) -> int:
        """Return how many are missing, for one line to tell."""
        with self._lock:
            lost, self._lost = self._lost, 0
            return lost

    def _count(self, more: int) -> None:
        with self._lock:
            self._lost += more


def _told(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error}. See that it can be written before the next run."
    # The text of any other may hold what the call kept secret.
    return str(error) if isinstance(error, RecordError) else f"{type(error).__name__}."

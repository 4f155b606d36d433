"""The turn to deliver: one process of all has it, and notes what the endpoint was asked."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from contextlib import suppress
from pathlib import Path

from toolstile_hookspecs.support.process import unshared
from toolstile_plugins.directories import make_directory_of

log = logging.getLogger("toolstile.webhook")


class Turn:
    """A file that one process at a time has locked; the system frees it where that one dies.

    Args:
        path: The file; made, with the directories above.

    Attributes:
        asked: The questions that the endpoint was asked and not told the end of: their addresses
            by ticket. The next process that has the turn goes on with them.
    """

    def __init__(self, path: Path) -> None:
        make_directory_of(path)
        self._file = unshared(path, os.O_RDWR | os.O_CREAT)
        self.asked: dict[str, str] = {}

    def take(self) -> bool:
        """Tell whether the turn is this process's, until it is given back."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        with suppress(ValueError):
            self.asked = json.loads(self._file.readall().partition(b"\n")[0])
        return True

    def note(self) -> None:
        """Write down what was asked; nothing of it is needed but for a later process."""
        line = json.dumps(self.asked).encode() + b"\n" if self.asked else b""
        try:
            # In this order, so that a process that dies within leaves one of both lines.
            os.pwrite(self._file.fileno(), line, 0)
            os.ftruncate(self._file.fileno(), len(line))
        except OSError:
            log.exception("What the webhook was asked cannot be noted.")

    def close(self) -> None:
        """Give the turn back."""
        self._file.close()

"""One pause at a time, at the nth function that begins, goes on or returns."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from types import CodeType
from typing import Final

SECONDS: Final = (0.3, 0.7, 1.2)
LAST: Final = 2.0**14
"""The most functions that a test may have passed before it is paused."""

_PLACES: Final = ("toolstile", "tests", "asyncio", "concurrent", "threading.py", "contextlib.py")
_HERE: Final = str(Path(__file__).parent)
_TOOL: Final = sys.monitoring.PROFILER_ID
_EVENTS: Final = (
    sys.monitoring.events.PY_START,
    sys.monitoring.events.PY_RESUME,
    sys.monitoring.events.PY_RETURN,
)


class Pauses:
    """Watches functions; stops a thread where it is told to.

    Raises:
        ValueError: When something else watches them, a profiler, say.
    """

    def __init__(self) -> None:
        self._left = 0
        self._seconds = 0.0
        self._place = ""
        sys.monitoring.use_tool_id(_TOOL, "pausing")
        for event in _EVENTS:
            sys.monitoring.register_callback(_TOOL, event, self._passed)

    @property
    def told(self) -> str:
        """The last pause: its thread, its place and its time."""
        return self._place or "nothing: it ended before"

    def close(self) -> None:
        """Watch no more."""
        sys.monitoring.free_tool_id(_TOOL)

    @contextmanager
    def one(self, chance: Random) -> Iterator[None]:
        """Stop one thread during what is done here, at a moment left to chance."""
        # Most tests pass by few functions, so that early moments are drawn more often.
        self._left = int(LAST ** chance.random())
        self._seconds = chance.choice(SECONDS)
        self._place = ""
        sys.monitoring.set_events(_TOOL, sum(_EVENTS))
        try:
            yield
        finally:
            sys.monitoring.set_events(_TOOL, 0)

    def _passed(self, code: CodeType, *_: object) -> object:
        if not _is_ours(code.co_filename):
            return sys.monitoring.DISABLE
        self._left -= 1
        if self._left == 0:
            thread = threading.current_thread().name
            self._place = (
                f"{thread}, for {self._seconds} s, at {code.co_qualname} ({code.co_filename})"
            )
            time.sleep(self._seconds)
        return None


@cache
def _is_ours(file: str) -> bool:
    if file.startswith(_HERE):
        return False
    # Only from where packages begin: the folder of a checkout may be called toolstile, too.
    parts = Path(file).parts[_start_of_packages(file) :]
    return any(part.startswith("toolstile") or part in _PLACES for part in parts)


def _start_of_packages(file: str) -> int:
    parts = Path(file).parts
    return parts.index("site-packages") + 1 if "site-packages" in parts else 0

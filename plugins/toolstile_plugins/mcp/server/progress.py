"""The progress that handlers report, on its way to the client."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from typing import Final, Protocol

from toolstile_hookspecs._schema.serialize import encodable

log = logging.getLogger("toolstile.mcp")

WAITING: Final = 1000
"""How many reports wait at most for a client that is slow to take them; later ones win."""


class Reporting(Protocol):
    """What sends a report to the client."""

    async def __call__(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a report; does nothing where the client asked for none."""
        ...


class ProgressRelay:
    """Sends reports in the order in which handlers make them, on whatever thread.

    The protocol wants progress to grow, so a report that does not, and one that is no number, is
    left out.

    Args:
        send: Sends a report to the client.
    """

    def __init__(self, send: Reporting) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._reports: deque[tuple[float, float | None, str | None]] = deque(maxlen=WAITING)
        self._sending: asyncio.Task[None] | None = None
        self._last = float("-inf")
        self._stopped = False

    def report(self, done: float, total: float | None, message: str | None) -> None:
        """Take a report, on any thread."""
        if not _is_number(done):
            return
        shown = None if message is None else encodable(str(message))
        self._reports.append((done, total if _is_number(total) else None, shown))
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            log.debug("Progress was reported after the server had ended.")

    async def finish(self) -> None:
        """Wait until all that was reported has been sent."""
        # A call may have ended before the loop came to what its handler reported.
        self._begin()
        if self._sending is not None:
            await self._sending

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        if self._sending is not None:
            self._sending.cancel()

    def _begin(self) -> None:
        if self._reports and not self._stopped and (self._sending is None or self._sending.done()):
            self._sending = asyncio.ensure_future(self._send_all())

    async def _send_all(self) -> None:
        while self._reports:
            done, total, message = self._reports.popleft()
            if done > self._last:
                self._last = done
                await self._send(done, total, message)


def _is_number(given: object) -> bool:
    """Tell whether the protocol has a number for what a handler has reported."""
    try:
        return isinstance(given, int | float) and math.isfinite(given)
    except OverflowError:
        return False

"""What is logged where no more connections can be taken, since files have run out."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Any, Final

from toolstile_hookspecs import NOTICE

log = logging.getLogger("toolstile.mcp")

SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The errors at which asyncio waits a second until it takes connections again."""
INTERVAL: Final = 60.0
"""Seconds in which it is told once."""


class Scarcity:
    """Handles what goes wrong on a loop, and tells of what has run out once in a while.

    asyncio tells of it two thousand times a second, each time with a traceback.
    """

    def __init__(self) -> None:
        self._again_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take what a loop tells of."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in SCARCE and "socket" in context):
            loop.default_exception_handler(context)
        elif loop.time() >= self._again_at:
            self._again_at = loop.time() + INTERVAL
            log.warning(
                "No more clients can connect: %s. They wait until others leave; allow more open "
                "files (ulimit -n), or fewer connections in the proxy that is in front.",
                error.strerror,
                extra=NOTICE,
            )

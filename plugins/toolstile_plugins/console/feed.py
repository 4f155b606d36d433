"""Changes, told to the open pages as server-sent events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from toolstile_hookspecs import ToolstileError

log = logging.getLogger("toolstile.console")


class Feed:
    """Tells open pages of one kind that there is something new; they load it themselves.

    It looks once for all of them, and only while one is open. A page that connects again is told
    the version at once, so that it misses nothing.

    Args:
        version: Returns a short text that changes with what a page shows.
        interval: Seconds between two looks.
    """

    def __init__(self, version: Callable[[], str], interval: float) -> None:
        self._version = version
        self._interval = interval
        self._now = ""
        self._open = 0
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_looking(self) -> bool:
        """True while it looks for changes."""
        return self._looking is not None

    async def serve(self, request: Request) -> StreamingResponse:  # noqa: ARG002 - an endpoint
        """Return the stream of versions."""
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        told = ""
        self._open += 1
        if self._looking is None:
            # It belongs to the loop that serves the pages.
            self._changed = asyncio.Condition()
            self._looking = asyncio.create_task(self._look())
        try:
            yield "retry: 1000\n\n"
            while True:
                async with self._changed:
                    while self._now == told:
                        await self._changed.wait()
                    told = self._now
                yield f"data: {told}\n\n"
        finally:
            self._open -= 1
            if not self._open:
                self._looking.cancel()
                self._looking, self._now = None, ""

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                now = await run_in_threadpool(self._version)
            except (ToolstileError, OSError) as error:
                log.warning("The console cannot look for changes: %s", error)
            else:
                async with self._changed:
                    self._now = now
                    self._changed.notify_all()
            # What takes long, as a large ledger does, is looked at less often.
            await asyncio.sleep(max(self._interval, 4 * (loop.time() - began)))

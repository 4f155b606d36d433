"""An async lifespan of a plugin, on the background loop."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any

log = logging.getLogger("toolstile")


class AsyncLife:
    """An async lifespan: one task enters and leaves it, as task groups within it demand.

    It lives on a loop of another thread.
    """

    def __init__(
        self,
        plugin: str,
        lifespan: AbstractAsyncContextManager[Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._plugin = plugin
        self._lifespan = lifespan
        self._loop = loop
        self._life: asyncio.Task[Any] | None = None
        self._entered: Future[Any] = Future()
        self._stop = asyncio.Event()

    def begin(self) -> Any:
        """Enter it and return the yielded object; an exception of entering passes through."""
        asyncio.run_coroutine_threadsafe(self._live(), self._loop)
        return self._entered.result()

    def end(self) -> None:
        """Leave it, even while it is being entered, and wait until it is left."""
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result()

    async def _leave(self) -> None:
        if self._life is None:
            return
        self._stop.set()
        if not self._entered.done():
            self._life.cancel()
        await asyncio.wait([self._life])

    async def _live(self) -> None:
        self._life = asyncio.current_task()
        try:
            async with self._lifespan as state:
                self._entered.set_result(state)
                await self._stop.wait()
        except BaseException as error:
            if not self._entered.done():
                self._entered.set_exception(error)
            elif self._stop.is_set():
                log.exception("Plugin %s failed to stop what it kept running.", self._plugin)
            else:
                log.exception("What plugin %s kept running has failed.", self._plugin)

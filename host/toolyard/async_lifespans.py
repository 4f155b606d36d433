"""Async lifespans: each entered, lived and left by one task on the background loop."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any

from toolyard.lifespans import NOT_STOPPED

log = logging.getLogger("toolyard")


class AsyncLife:
    """An async lifespan: one task enters and leaves it, as task groups within it demand.

    Args:
        plugin: Whose it is, for messages.
        lifespan: The context manager.
    """

    def __init__(self, plugin: str, lifespan: AbstractAsyncContextManager[Any]) -> None:
        self._plugin = plugin
        self._lifespan = lifespan
        self._entered: Future[None] = Future()
        self._stop = asyncio.Event()

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Enter it on a loop of another thread; raises what entering raises."""
        self._loop = loop
        self._ended = asyncio.run_coroutine_threadsafe(self._live(), loop)
        self._entered.result()

    def end(self) -> None:
        """Leave it, and wait until it is left."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._ended.result()

    async def _live(self) -> None:
        try:
            async with self._lifespan:
                self._entered.set_result(None)
                await self._stop.wait()
        except BaseException as error:
            if not self._entered.done():
                self._entered.set_exception(error)
            elif self._stop.is_set():
                log.exception(NOT_STOPPED, self._plugin)
            else:
                log.exception("What plugin %s kept running has failed.", self._plugin)

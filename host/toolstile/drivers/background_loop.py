"""The host's one event loop in the background, for async parts: steps and lifespans."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any

log = logging.getLogger("toolstile")


class Background:
    """An event loop on a daemon thread, started when first needed.

    Closed, it starts another loop if a call that still runs must undo changes. A loop that was
    never closed ends with its last user.
    """

    __slots__ = ("__weakref__", "_end", "_lock", "_loop", "_thread")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._end: Callable[[], object] | None = None

    @property
    def is_here(self) -> bool:
        """True on the loop's own thread, which must not wait for the loop."""
        thread = self._thread
        return thread is not None and thread.ident == threading.get_ident()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            with self._lock:
                if self._loop is None:
                    loop = asyncio.new_event_loop()
                    started = threading.Event()
                    self._thread = threading.Thread(
                        target=_serve, args=(loop, started.set), name="toolstile-loop", daemon=True
                    )
                    self._thread.start()
                    started.wait()
                    # Called once, because a second cancellation would stop the tasks' own cleanup.
                    self._end = end = weakref.finalize(self, loop.call_soon_threadsafe, _stop, loop)
                    end.atexit = False
                    self._loop = loop
        return self._loop

    def close(self) -> None:
        """Cancel the loop's tasks, and stop the loop when they have ended; returns at once."""
        self._loop = None
        end, self._end = self._end, None
        if end is not None:
            end()


def _serve(loop: asyncio.AbstractEventLoop, started: Callable[[], None]) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(started)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    # One turn later, because a task that is cancelled before it begins reports no end.
    loop.call_soon(_cancel_all, loop)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    # Other code may wait for their cleanup, such as a commit that is undone.
    ending = asyncio.gather(*tasks, return_exceptions=True)
    ending.add_done_callback(lambda _: loop.stop())


# --- An async lifespan of a plugin


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

"""The host's one event loop in the background, for async parts under the sync driver."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable


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

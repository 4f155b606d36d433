"""Starting and stopping what plugins keep running while the host is open."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolyard.host import Host
    from toolyard.plugins.implementations import Implementation

log = logging.getLogger("toolyard")


def enter_lifespans(host: Host, stack: ExitStack) -> None:
    """Enter every plugin's lifespan; leave those entered when one cannot be.

    Args:
        host: What the plugins are given.
        stack: What leaves them again, in reverse order.

    Raises:
        Exception: What a plugin raises on entering.
    """
    try:
        for each in host.plugins.implementations("toolyard_lifespan"):
            _enter(host, stack, each)
    except BaseException:
        stack.close()
        raise


def enter_lifespan_of(plugin: str, host: Host, stack: ExitStack) -> None:
    """Enter the lifespan of one plugin, registered while the host is open.

    Raises:
        Exception: What the plugin raises on entering.
    """
    for each in host.plugins.implementations("toolyard_lifespan"):
        if each.plugin == plugin:
            _enter(host, stack, each)


def _enter(host: Host, stack: ExitStack, each: Implementation) -> None:
    lifespan: Any = each.call(host, host.settings(each.plugin))
    if lifespan is None:
        return
    if hasattr(lifespan.__class__, "__enter__"):
        lifespan.__enter__()
        stack.callback(_leave, each.plugin, lifespan)
        return
    life = _Life(each.plugin, lifespan)
    life.begin(host.engine.background.loop)
    stack.callback(life.end)


def _leave(plugin: str, lifespan: Any) -> None:
    try:
        lifespan.__exit__(None, None, None)
    except Exception:
        log.exception(_NOT_STOPPED, plugin)


class _Life:
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
                log.exception(_NOT_STOPPED, self._plugin)
            else:
                log.exception("What plugin %s kept running has failed.", self._plugin)


_NOT_STOPPED = "Plugin %s failed to stop what it kept running."

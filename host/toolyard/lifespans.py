"""Starting and stopping what plugins keep running while the host is open."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolyard.host import Host
    from toolyard.plugins.implementations import Implementation

log = logging.getLogger("toolyard")
NOT_STOPPED: Final = "Plugin %s failed to stop what it kept running."


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
    from toolyard.async_lifespans import AsyncLife  # brings asyncio, which few plugins need

    life = AsyncLife(each.plugin, lifespan)
    life.begin(host.engine.background.loop)
    stack.callback(life.end)


def _leave(plugin: str, lifespan: Any) -> None:
    try:
        lifespan.__exit__(None, None, None)
    except Exception:
        log.exception(NOT_STOPPED, plugin)

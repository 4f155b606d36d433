"""Starting and stopping what plugins keep running while the host is open."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolyard.host import Host

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
            lifespan = each.call(host, host.settings(each.plugin))
            if lifespan is not None:
                _enter(host, lifespan)
                stack.callback(_leave, host, each.plugin, lifespan)
    except BaseException:
        stack.close()
        raise


def _enter(host: Host, lifespan: Any) -> None:
    if hasattr(lifespan.__class__, "__enter__"):
        lifespan.__enter__()
    else:
        host.engine.background.run(lifespan.__aenter__())


def _leave(host: Host, plugin: str, lifespan: Any) -> None:
    try:
        if hasattr(lifespan.__class__, "__exit__"):
            lifespan.__exit__(None, None, None)
        else:
            host.engine.background.run(lifespan.__aexit__(None, None, None))
    except Exception:
        log.exception("Plugin %s failed to stop what it kept running.", plugin)

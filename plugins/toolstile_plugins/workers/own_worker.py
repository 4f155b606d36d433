"""The worker of a host's own: calls run in processes that end with the host."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import Any

from toolstile_hookspecs import ConfigurationError, Tool
from toolstile_hookspecs.services.dispatcher import Dispatcher
from toolstile_plugins.workers.handlers import HANDLER_PROCESS, HandlerProcesses
from toolstile_plugins.workers.tool_modules import tools_in

log = logging.getLogger("toolstile.workers")


@contextmanager
def own_worker(
    dispatcher: Dispatcher, tools: Iterable[Tool[Any, Any]], concurrency: int
) -> Generator[None]:
    """Run calls of tools while the block runs.

    Args:
        dispatcher: The dispatcher, which hands out the calls.
        tools: The tools.
        concurrency: How many calls run at once.

    Raises:
        ConfigurationError: A tool is in no module that another process can import, or the
            processes do not start.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == HANDLER_PROCESS:
        raise ConfigurationError(
            "plugins.workers.concurrency: a module of tools opens a host when it is imported, as "
            "processes of handlers do. Open it in a function, or keep the tools in another module."
        )
    versions = {tool.name: tool.version for tool in tools}
    modules = sorted({_module_of(tool) for tool in tools})
    stop = Event()

    def serve() -> None:
        try:
            dispatcher.serve(handlers, concurrency=concurrency, stop=stop)
        except Exception:
            log.exception("The worker of this host has ended, and takes no more calls.")

    with closing(HandlerProcesses(modules, versions)) as handlers:
        handlers.start(concurrency)
        thread = Thread(target=serve, name="toolstile-own-worker", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _module_of(tool: Tool[Any, Any]) -> str:
    """Return the module whose top level has a tool; raises `ConfigurationError` for none."""
    function: Any = getattr(tool, "function", tool.handler)
    name: str = getattr(function, "__module__", "__main__")
    module = None if name == "__main__" else sys.modules.get(name)
    if module is None or tool.name not in tools_in([module]):
        raise ConfigurationError(
            f"plugins.workers.concurrency: {tool.name} is not at the top level of a module that "
            "another process can import. Move it there, or leave it out of [plugins.workers.runs]."
        )
    return name

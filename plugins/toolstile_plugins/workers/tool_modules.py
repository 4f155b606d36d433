"""The tools that workers run."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from toolstile_hookspecs import Tool


def tools_in(modules: Iterable[ModuleType]) -> dict[str, Tool[Any, Any]]:
    """Return the tools of modules that have a handler, by name."""
    found = [value for module in modules for value in vars(module).values()]
    tools: list[Any] = [value for value in found if isinstance(value, Tool)]
    return {tool.name: tool for tool in tools if tool.handler is not None}


def needs_host(tool: Tool[Any, Any]) -> bool:
    """Return whether the handler of a tool connects to its host while it runs."""
    # Handlers with a context use their host. Secrets need a connection, because params and results
    # that are sent without one are stored in the queue.
    function: Any = getattr(tool, "function", None)
    if function is None or "context" in inspect.signature(function).parameters:
        return True
    return bool(tool.params_codec.secret_schema() or tool.result_codec.secret_schema())

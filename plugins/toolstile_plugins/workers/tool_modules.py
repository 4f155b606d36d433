"""The tools that workers run: those of the modules that they are given."""

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
    """Tell whether the handler of a tool is connected with its host while it runs.

    That is one that takes a context, and one with secrets: what is not sent over such a connection
    is stored on its way.
    """
    function: Any = getattr(tool, "function", None)
    if function is None or "context" in inspect.signature(function).parameters:
        return True
    return bool(tool.params_codec.secret_schema() or tool.result_codec.secret_schema())

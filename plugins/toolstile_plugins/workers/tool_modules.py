"""The tools that workers run: those of the modules that they are given, without a context."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from toolstile_hookspecs import FunctionTool, Tool


def tools_in(modules: Iterable[ModuleType]) -> dict[str, Tool[Any, Any]]:
    """Return the tools of modules that can run on workers, by name."""
    found = [value for module in modules for value in vars(module).values()]
    tools: list[Any] = [value for value in found if isinstance(value, Tool)]
    return {tool.name: tool for tool in tools if why_not(tool) is None}


def why_not(tool: Tool[Any, Any]) -> str | None:
    """Tell why a tool cannot run on workers, None where it can."""
    if not isinstance(tool, FunctionTool):
        return "is not made of a function. Make it with @tool"
    if "context" in inspect.signature(tool.function).parameters:
        return "takes a context, and session and resources stay with the host. Do without it"
    if tool.params_codec.secret_schema() or tool.result_codec.secret_schema():
        # Calls and outcomes are stored on their way, and results would come back masked.
        return "has a secret in its params or its result. Read it from the worker's environment"
    return None

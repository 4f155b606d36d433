"""The message shapes of OpenAI, Anthropic, Gemini and MCP: tools, calls and results, both ways.

Each is imported when it is first used: most commands use none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs import Dialect, hookimpl

if TYPE_CHECKING:
    from toolstile_plugins.dialects.anthropic import Anthropic
    from toolstile_plugins.dialects.gemini import Gemini
    from toolstile_plugins.dialects.mcp import Mcp
    from toolstile_plugins.dialects.openai import OpenAI, OpenAIResponses

__all__ = ["Anthropic", "Gemini", "Mcp", "OpenAI", "OpenAIResponses", "toolstile_dialects"]

_MODULES: Final = {
    "OpenAI": "openai",
    "OpenAIResponses": "openai",
    "Anthropic": "anthropic",
    "Gemini": "gemini",
    "Mcp": "mcp",
}


def __getattr__(name: str) -> Any:
    """Import a dialect when it is first used."""
    module = _MODULES.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{module}"), name)


@hookimpl
def toolstile_dialects() -> list[Dialect]:
    """Offer the built-in dialects."""
    return [__getattr__(name)() for name in _MODULES]

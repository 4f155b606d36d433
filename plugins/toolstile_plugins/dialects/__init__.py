"""The message shapes of OpenAI, Anthropic, Gemini and MCP: tools, calls and results, both ways.

Each is imported when it is first used: most commands use none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolstile_hookspecs import Dialect, hookimpl
from toolstile_hookspecs.support.late_names import late_names

if TYPE_CHECKING:
    from toolstile_plugins.dialects.anthropic import Anthropic
    from toolstile_plugins.dialects.gemini import Gemini
    from toolstile_plugins.dialects.mcp import Mcp
    from toolstile_plugins.dialects.openai import OpenAI, OpenAIResponses

__all__ = ["Anthropic", "Gemini", "Mcp", "OpenAI", "OpenAIResponses", "toolstile_dialects"]

_HOMES: Final = {
    "openai": "OpenAI OpenAIResponses",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "mcp": "Mcp",
}
__getattr__ = late_names(__name__, _HOMES)


@hookimpl
def toolstile_dialects() -> list[Dialect]:
    return [__getattr__(name)() for names in _HOMES.values() for name in names.split()]

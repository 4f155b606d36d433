"""The message shapes of OpenAI, Anthropic, Gemini and MCP: tools, calls and results, both ways."""

from __future__ import annotations

from toolyard_hookspecs import Dialect, hookimpl
from toolyard_plugins.dialects.anthropic import Anthropic
from toolyard_plugins.dialects.gemini import Gemini
from toolyard_plugins.dialects.mcp import Mcp
from toolyard_plugins.dialects.openai import OpenAI, OpenAIResponses

__all__ = ["Anthropic", "Gemini", "Mcp", "OpenAI", "OpenAIResponses", "toolyard_dialects"]


@hookimpl
def toolyard_dialects() -> list[Dialect]:
    """Offer the built-in dialects."""
    return [OpenAI(), OpenAIResponses(), Anthropic(), Gemini(), Mcp()]

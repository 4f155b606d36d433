"""The adapters, each with the API that plays its provider."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest
from tests.plugins.agent.providers.anthropic_wire import AnthropicWire
from tests.plugins.agent.providers.chat_wire import ChatWire
from tests.plugins.agent.providers.closing_litellm import ClosingLiteLLM
from tests.plugins.agent.providers.played_server import Played, Scripted, Wire, serving
from tests.plugins.agent.providers.responses_wire import ResponsesWire

from toolstile_plugins.agent.providers.anthropic import Anthropic
from toolstile_plugins.agent.providers.openai_chat import OpenAIChat
from toolstile_plugins.agent.providers.openai_responses import OpenAIResponses


@dataclass(frozen=True)
class Provider:
    """An adapter of ours.

    Args:
        adapter: Its class.
        wire: Makes the API of its provider.
        model: The model.
        options: Returns the options of the adapter for the URL of a server.
    """

    adapter: type[Any]
    wire: Callable[[], Wire]
    model: str
    options: Callable[[str], dict[str, Any]]

    def serve(
        self, stack: ExitStack, *script: Scripted, adapter: type[Any] | None = None
    ) -> tuple[Any, Played]:
        """Serve a script until the stack ends; return an adapter of it, and what was asked."""
        played = stack.enter_context(serving(self.wire(), *script))
        made = (adapter or self.adapter)(self.model, **self.options(played.url))
        return stack.enter_context(made), played


def _openai(url: str) -> dict[str, Any]:
    return {"base_url": f"{url}/v1", "api_key": "sk-of-nobody"}


def _litellm(url: str) -> dict[str, Any]:
    return {"api_base": f"{url}/v1", "api_key": "sk-of-nobody"}


def _anthropic(url: str) -> dict[str, Any]:
    return {"base_url": url, "api_key": "sk-of-nobody"}


KNOWN = {
    "anthropic": Provider(Anthropic, AnthropicWire, "claude-sonnet-4-6", _anthropic),
    "litellm": Provider(ClosingLiteLLM, ChatWire, "openai/gpt-5-mini", _litellm),
    "openai-chat": Provider(OpenAIChat, ChatWire, "gpt-5-mini", _openai),
    "openai-responses": Provider(OpenAIResponses, ResponsesWire, "gpt-5-mini", _openai),
}

# LiteLLM asks for an older importlib-metadata, so that it is there for the long tests alone.
PROVIDERS = {
    name: provider
    for name, provider in KNOWN.items()
    if name != "litellm" or find_spec("litellm") is not None
}

NAMES = [
    # LiteLLM and the libraries below it warn of themselves.
    pytest.param(
        name,
        marks=[pytest.mark.long, pytest.mark.filterwarnings("ignore")] if name == "litellm" else [],
    )
    for name in PROVIDERS
]

"""LiteLLM, a library that asks many providers in the shapes of Chat Completions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from inspect import isawaitable
from typing import Any, ClassVar

from toolstile_hookspecs import ConfigurationError, Dialect, HostHandle
from toolstile_plugins.agent.providers.base import StreamedReply
from toolstile_plugins.agent.providers.openai_chat import OpenAIChat
from toolstile_plugins.dialects.openai import OpenAI


class _Dialect(OpenAI):
    # Its messages carry fields, such as signatures, that OpenAI rejects.
    name = "litellm"


class LiteLLM(OpenAIChat):
    """A model behind LiteLLM, as LiteLLM names it: `gemini/gemini-2.5-pro`, `ollama_chat/qwen3`.

    Args:
        model: The model.
        host: The open host for `evaluate`.
        **options: Arguments of each `litellm.completion`, such as `api_base` and `api_key`.
    """

    name: ClassVar[str] = "litellm"
    dialect: ClassVar[Dialect] = _Dialect()
    library: ClassVar[str] = "litellm"
    extra: ClassVar[str | None] = None
    takes: ClassVar[Mapping[str, str]] = {**OpenAIChat.takes, "thinking": "thinking"}

    def __init__(self, model: str, *, host: HostHandle | None = None, **options: Any) -> None:
        super().__init__(model, host=host)
        self._options = {**self._options, **options}

    def client(self) -> Any:
        """Return `litellm.completion`; LiteLLM keeps its clients itself."""
        return self.imported().completion

    def async_client(self) -> Any:
        return self.imported().acompletion

    def method(self, client: Any) -> Callable[..., Any]:

        def create(**given: Any) -> Any:
            given = {**self._options, **given, "num_retries": 0}
            if not given.get("stream"):
                return client(**given)
            opened = client(**given, stream_options={"include_usage": True})

            async def opened_async() -> Any:
                return _with_refusals(await opened)

            return opened_async() if isawaitable(opened) else _with_refusals(opened)

        return create

    def keys(self, client: Any) -> list[str]:
        """Return the keys; LiteLLM reads the keys of all its providers from the environment."""
        named = (value for name, value in os.environ.items() if name.endswith(("_KEY", "_TOKEN")))
        return [*super().keys(client), *named]

    def whole(self, stream: StreamedReply) -> Any:
        return self.imported().stream_chunk_builder(stream.events)

    def fault(self, error: Exception) -> Exception | None:
        if type(error).__name__ == "UnsupportedParamsError":
            return ConfigurationError(str(error))
        return super().fault(error)

    def imported(self) -> Any:
        """Return LiteLLM, which would print advice beside the answer of `toolstile ask`."""
        library = super().imported()
        library.suppress_debug_info = True
        return library


def _with_refusals(stream: Any) -> Any:
    """Return a stream whose refusals are text; LiteLLM drops chunks with a refusal alone."""
    chunks, is_refused = stream.completion_stream, False

    def shown(chunk: Any) -> Any:
        nonlocal is_refused
        for choice in getattr(chunk, "choices", None) or ():
            if refusal := getattr(getattr(choice, "delta", None), "refusal", None):
                is_refused, choice.delta.content = True, refusal
            if is_refused and choice.finish_reason == "stop":
                choice.finish_reason = "content_filter"
        return chunk

    async def ashown() -> AsyncIterator[Any]:
        async for chunk in chunks:
            yield shown(chunk)

    stream.completion_stream = ashown() if hasattr(chunks, "__aiter__") else map(shown, chunks)
    return stream

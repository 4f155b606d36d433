"""LiteLLM, a library that asks many providers in the shapes of Chat Completions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from toolstile_hookspecs import ConfigurationError, Dialect
from toolstile_hookspecs.agents.provider import Listener
from toolstile_plugins.agent.providers.base import StreamReader, library_named
from toolstile_plugins.agent.providers.openai_chat import OpenAIChat
from toolstile_plugins.dialects.openai import OpenAI


class _Dialect(OpenAI):
    # Its messages carry fields, such as signatures, that OpenAI does not take.
    name = "litellm"


class LiteLLM(OpenAIChat):
    """A model behind LiteLLM, as LiteLLM names it: `gemini/gemini-2.5-pro`, `ollama_chat/qwen3`.

    In a stream LiteLLM leaves out the text with which a model of OpenAI refuses; the loop then
    takes the reply as an empty one.

    Args:
        model: The model.
        **options: Arguments of each `litellm.completion`, such as `api_base` and `api_key`.
    """

    name: ClassVar[str] = "litellm"
    dialect: ClassVar[Dialect] = _Dialect()
    library: ClassVar[str] = "litellm"
    takes: ClassVar[Mapping[str, str]] = {**OpenAIChat.takes, "thinking": "thinking"}

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model)
        self._options = {**self._options, **options}

    def client(self) -> Any:
        """Return `litellm.completion`; LiteLLM keeps its clients itself."""
        return self._library().completion

    def async_client(self) -> Any:
        """Return `litellm.acompletion`."""
        return self._library().acompletion

    def method(self, client: Any) -> Callable[..., Any]:
        """Return the function with the options."""

        def create(**given: Any) -> Any:
            if given.get("stream"):
                given["stream_options"] = {"include_usage": True}
            return client(**{**self._options, **given}, num_retries=0)

        return create

    def stream_reader(self, listen: Listener) -> StreamReader:
        """Return LiteLLM's own way to put chunks together."""
        chunks: list[Any] = []

        def add(chunk: Any) -> None:
            chunks.append(chunk)
            for choice in chunk.choices[:1]:
                if choice.delta.content:
                    listen(choice.delta.content)

        return add, lambda: self._library().stream_chunk_builder(chunks)

    @contextmanager
    def faults(self, key: object = None) -> Generator[None]:
        """Raise errors of LiteLLM as a `ProviderError`; see `ClientAdapter`."""
        with super().faults(key or self._options.get("api_key")):
            try:
                yield
            except Exception as error:
                if type(error).__name__ == "UnsupportedParamsError":
                    raise ConfigurationError(str(error)) from error
                raise

    def _library(self) -> Any:
        library = library_named(self.library)
        # It would print advice beside the answer of `toolstile ask`.
        library.suppress_debug_info = True
        return library

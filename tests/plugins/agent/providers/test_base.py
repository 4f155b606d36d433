"""Adapters make, share and close their clients; what was given to them is not theirs."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from traceback import format_exception
from typing import Any

import openai
import pytest
from tests.plugins.agent.providers.played_server import said
from tests.plugins.agent.providers.providers import PROVIDERS, Provider

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.agents.messages import Message
from toolstile_hookspecs.agents.provider import FaultType, ModelRequest, ProviderError
from toolstile_plugins.agent.providers import adapter_named
from toolstile_plugins.agent.providers.litellm import LiteLLM
from toolstile_plugins.agent.providers.openai_chat import OpenAIChat
from toolstile_plugins.agent.providers.openai_responses import OpenAIResponses

REQUEST = ModelRequest("You greet.", [Message.user("Hello.")], timeout=20)
KEY = "sk-of-nobody"


@pytest.fixture(params=["openai-chat", "openai-responses"])
def provider(request: pytest.FixtureRequest) -> Provider:
    return PROVIDERS[request.param]


def test_no_client_is_made_before_the_first_request(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    adapter = OpenAIChat("some-model")
    adapter.close()
    with pytest.raises(ConfigurationError, match="client of openai cannot be made"):
        adapter.send(REQUEST)


def test_a_missing_library_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigurationError, match=r"\[agent\]"):
        OpenAIChat("some-model").send(REQUEST)


def test_a_missing_library_without_an_extra_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(ConfigurationError, match=r"pip install litellm$"):
        LiteLLM("openai/gpt-5").imported()


def test_a_client_is_made_from_the_environment(provider: Provider, monkeypatch: pytest.MonkeyPatch):
    with ExitStack() as stack:
        _, played = provider.serve(stack, said("Hello."))
        monkeypatch.setenv("OPENAI_BASE_URL", f"{played.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
        with provider.adapter("gpt-5-mini") as adapter:
            assert adapter.send(REQUEST).text == "Hello."
    assert played.headers[0]["authorization"] == "Bearer sk-of-the-environment"


def test_a_given_client_is_used_without_its_retries_and_left_open(provider: Provider):
    fault = ProviderError("Later.", FaultType.UNAVAILABLE)
    with ExitStack() as stack:
        _, played = provider.serve(stack, fault, said("Hello."))
        client = stack.enter_context(
            openai.OpenAI(base_url=f"{played.url}/v1", api_key=KEY, max_retries=5)
        )
        adapter = provider.adapter("gpt-5-mini", client=client)
        with adapter, pytest.raises(ProviderError):
            adapter.send(REQUEST)
        assert not client.is_closed()
        assert client.max_retries == 5
        assert adapter.send(REQUEST).text == "Hello."


def test_a_given_async_client_is_left_open(provider: Provider):
    async def run(url: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
            async with provider.adapter("gpt-5-mini", async_client=client) as adapter:
                assert (await adapter.asend(REQUEST)).text == "Hello."
            assert not client.is_closed()

    with ExitStack() as stack:
        asyncio.run(run(provider.serve(stack, said("Hello."))[1].url))


def test_an_own_client_is_shared_and_closed(provider: Provider):
    with ExitStack() as stack:
        adapter, _ = provider.serve(stack, said("One."), said("Two."))
        adapter.send(REQUEST)
        client = adapter.client()
        assert adapter.client() is client
        adapter.close()
        assert client.is_closed()
        assert adapter.send(REQUEST).text == "Two."


def test_each_event_loop_has_its_own_client(provider: Provider):
    async def ask(adapter: Any) -> tuple[str, Any]:
        async with adapter:
            client = adapter.async_client()
            assert adapter.async_client() is client
            return (await adapter.asend(REQUEST)).text, client

    with ExitStack() as stack:
        adapter, _ = provider.serve(stack, said("One."), said("Two."))
        one, first = asyncio.run(ask(adapter))
        two, second = asyncio.run(ask(adapter))
    assert (one, two) == ("One.", "Two.")
    assert first is not second
    assert first.is_closed()
    assert second.is_closed()


def test_an_async_client_ends_with_its_event_loop(provider: Provider):
    async def ask(adapter: Any) -> Any:
        await adapter.asend(REQUEST)
        return adapter.async_client()

    with ExitStack() as stack:
        adapter, _ = provider.serve(stack, said("One."), said("Two."))
        clients = [asyncio.run(ask(adapter)) for _ in range(2)]
    assert clients[0] is not clients[1]
    assert all(client.is_closed() for client in clients)


def test_no_key_is_shown(provider: Provider):
    with ExitStack() as stack:
        fault = ProviderError(f"Incorrect API key provided: {KEY}.", FaultType.REFUSED)
        adapter, _ = provider.serve(stack, fault)
        with pytest.raises(ProviderError) as raised:
            adapter.send(REQUEST)
    # The client's own error is the cause, and a log shows both.
    assert KEY not in "".join(format_exception(raised.value))
    assert "Incorrect API key provided" in str(raised.value)
    assert KEY not in repr(adapter)


def test_no_key_is_shown_by_what_is_behind_an_error():
    class Failing:
        api_key = KEY

        def with_options(self, **_: Any) -> Failing:
            return self

        @property
        def responses(self) -> Any:
            behind = LookupError(f"no {KEY} here")
            error = TimeoutError(f"{KEY} took too long")
            behind.__cause__ = error  # a circle, as `raise error from error` makes it
            raise error from behind

    with pytest.raises(ProviderError) as raised:
        OpenAIResponses("gpt-5-mini", client=Failing()).send(REQUEST)
    assert KEY not in "".join(format_exception(raised.value))
    assert "no *** here" in "".join(format_exception(raised.value))


def test_settings_that_may_hold_a_key_are_not_in_the_repr_of_a_request():
    settings = {"extra_headers": {"authorization": KEY}}
    assert KEY not in repr(replace(REQUEST, settings=settings))


def test_the_time_for_a_request_is_the_clients_timeout(provider: Provider):
    with ExitStack() as stack:
        adapter, played = provider.serve(stack, said("Hello."))
        adapter.send(REQUEST)
    # The client tells the server its timeout as it sends it.
    assert float(played.headers[0]["x-stainless-read-timeout"]) == 20


def test_adapters_are_found_by_name():
    with adapter_named("openai:some-model:latest", api_key=KEY) as chat:
        assert isinstance(chat, OpenAIChat)
        assert chat.model == "some-model:latest"
    assert isinstance(adapter_named("openai-responses:some-model"), OpenAIResponses)


@pytest.mark.parametrize("name", ["opnai:model", "openai", "openai:", ""])
def test_other_names_are_told_with_those_there_are(name: str):
    with pytest.raises(ConfigurationError, match="openai, openai-responses") as raised:
        adapter_named(name)
    assert repr(name) in str(raised.value)
    assert f"did you mean {name!r}" not in str(raised.value)


@contextmanager
def serving_page(status: int, page: bytes, kind: str) -> Generator[str]:
    """Serve one page, whatever is asked; give the address."""

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("name", ["anthropic", "openai-chat", "openai-responses"])
@pytest.mark.parametrize(
    ("status", "page", "kind"),
    [
        (200, b"<html>Welcome</html>", "text/html"),
        (404, b"<html>Not found</html>", "text/html"),
    ],
)
def test_what_another_server_answers_is_a_fault_that_names_the_address(
    name: str, status: int, page: bytes, kind: str
):
    with (
        serving_page(status, page, kind) as url,
        PROVIDERS[name].adapter("some-model", base_url=url, api_key=KEY) as adapter,
        pytest.raises(ProviderError, match=url) as raised,
    ):
        adapter.send(REQUEST)
    assert raised.value.type is FaultType.REFUSED
    assert "has no attribute" not in str(raised.value)


def test_a_server_that_is_not_there_is_named(provider: Provider):
    url = "http://127.0.0.1:9/v1"
    with (
        provider.adapter("some-model", base_url=url, api_key=KEY) as adapter,
        pytest.raises(ProviderError, match=url),
    ):
        adapter.send(REQUEST)


def test_anthropics_missing_key_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with (
        PROVIDERS["anthropic"].adapter("some-model") as adapter,
        pytest.raises(ConfigurationError, match="Set ANTHROPIC_API_KEY"),
    ):
        adapter.send(REQUEST)

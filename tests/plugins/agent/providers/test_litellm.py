"""LiteLLM's adapter, where it differs from that of OpenAI."""

from __future__ import annotations

from contextlib import ExitStack
from traceback import format_exception

import pytest
from tests.plugins.agent.providers.closing_litellm import ClosingLiteLLM
from tests.plugins.agent.providers.played_server import said
from tests.plugins.agent.providers.providers import PROVIDERS

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.agents.messages import Message
from toolstile_hookspecs.agents.provider import FaultType, ModelRequest, ProviderError

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("litellm")
REQUEST = ModelRequest("You greet.", [Message.user("Hello.")], timeout=20)


def test_nothing_but_the_answer_is_printed(capsys: pytest.CaptureFixture[str]):
    with ExitStack() as stack:
        adapter, _ = PROVIDERS["litellm"].serve(stack)
        with pytest.raises(Exception, match="The script is at its end"):
            adapter.send(REQUEST)
    assert capsys.readouterr().out == ""


def test_a_setting_that_the_model_behind_does_not_take_is_an_error():
    request = ModelRequest("", REQUEST.messages, settings={"logit_bias": {"1": 1}})
    adapter = ClosingLiteLLM("anthropic/claude-sonnet-4-6", api_key="sk-of-nobody")
    with pytest.raises(ConfigurationError, match="logit_bias"):
        adapter.send(request)


def test_its_items_are_not_sent_to_openai():
    with ExitStack() as stack:
        provider = PROVIDERS["litellm"]
        message = provider.serve(stack, said("Hello."))[0].send(REQUEST).message
    assert message.dialect == "litellm"
    assert message.dialect != PROVIDERS["openai-chat"].adapter.dialect.name


def test_no_key_is_shown():
    assert "sk-of-nobody" not in repr(ClosingLiteLLM("openai/gpt-5-mini", api_key="sk-of-nobody"))


def test_what_it_reads_from_the_environment_is_used_and_not_shown(monkeypatch: pytest.MonkeyPatch):
    key = "sk-of-the-environment"
    fault = ProviderError(f"Incorrect API key provided: {key}.", FaultType.REFUSED)
    with ExitStack() as stack:
        _, played = PROVIDERS["litellm"].serve(stack, said("Hello."), fault)
        monkeypatch.setenv("OPENAI_API_KEY", key)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{played.url}/v1")
        with ClosingLiteLLM("openai/gpt-5-mini") as adapter:
            assert adapter.send(REQUEST).text == "Hello."
            with pytest.raises(ProviderError, match="Incorrect API key provided") as raised:
                adapter.send(REQUEST)
    assert played.headers[0]["authorization"] == f"Bearer {key}"
    assert key not in "".join(format_exception(raised.value))
    assert key not in repr(adapter)

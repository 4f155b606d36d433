"""Anthropic's adapter, where its API differs from those of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from tests.plugins.agent.providers.anthropic_wire import AnthropicWire
from tests.plugins.agent.providers.played_server import USAGE, Cut, Json, Scripted, called, said
from tests.plugins.agent.providers.providers import PROVIDERS, Provider

from toolstile import Host, MarkdownSection, Prompt, tool
from toolstile_hookspecs.agents.messages import Message, StopReason
from toolstile_hookspecs.agents.provider import FaultType, ModelRequest, ProviderError
from toolstile_hookspecs.testing.providers import Events
from toolstile_plugins.agent import Agent
from toolstile_plugins.agent.providers.anthropic import MAX_TOKENS, Anthropic


@tool(category="read")
def look_up(word: str) -> str:
    """Look a word up."""
    return word


REQUEST = ModelRequest("Explain words.", [Message.user("Go")], [look_up])
CLOSED = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
CLOSED |= {"required": ["n"], "additionalProperties": False}
OPEN = {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.fixture
def play() -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:

        def play(*script: Scripted, wire: type[AnthropicWire] = AnthropicWire) -> Any:
            provider = replace(PROVIDERS["anthropic"], wire=wire)
            return provider.serve(stack, *script)

        yield play


def arguments(**settings: Any) -> dict[str, Any]:
    return Anthropic("claude-sonnet-4-6").arguments(replace(REQUEST, settings=settings))


def test_only_the_bound_that_the_api_requires_is_sent_where_nothing_is_set():
    assert arguments().keys() == {"model", "max_tokens", "messages", "system", "tools"}
    assert arguments()["max_tokens"] == MAX_TOKENS
    assert arguments(max_tokens=9)["max_tokens"] == 9


@pytest.mark.parametrize(
    ("settings", "name", "sent"),
    [
        ({"stop": "END"}, "stop_sequences", ["END"]),
        ({"stop": ["A", "B"]}, "stop_sequences", ["A", "B"]),
        ({"reasoning_effort": "low"}, "output_config", {"effort": "low"}),
        ({"tool_choice": "required"}, "tool_choice", {"type": "any"}),
        ({"tool_choice": "look_up"}, "tool_choice", {"type": "tool", "name": "look_up"}),
        (
            {"parallel_tool_calls": False},
            "tool_choice",
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
        ({"tool_choice": "none", "parallel_tool_calls": False}, "tool_choice", {"type": "none"}),
    ],
)
def test_a_setting_is_sent_as_the_api_has_it(settings: Any, name: str, sent: Any):
    assert arguments(**settings)[name] == sent


def test_a_choice_of_tools_is_not_sent_without_tools():
    request = replace(REQUEST, tools=(), settings={"tool_choice": "required"})
    assert "tool_choice" not in Anthropic("claude-sonnet-4-6").arguments(request)


def test_an_answer_that_may_have_any_keys_is_asked_for_in_the_prompt():
    closed, open_ = (
        Anthropic("claude-sonnet-4-6").arguments(replace(REQUEST, output=schema))
        for schema in (CLOSED, OPEN)
    )
    assert closed["output_config"]["format"]["type"] == "json_schema"
    assert closed["system"] == REQUEST.system
    assert "output_config" not in open_
    assert '"additionalProperties": {"type": "integer"}' in open_["system"]


def test_a_long_reply_is_waited_for_without_a_stream(play: Callable[..., Any]):
    adapter, _ = play(said("Here."))
    assert adapter.send(replace(REQUEST, settings={"max_tokens": 64_000})).text == "Here."


@pytest.mark.parametrize(
    ("name", "stop"),
    [
        ("stop_sequence", StopReason.END),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("pause_turn", StopReason.INCOMPLETE),
    ],
)
def test_a_stop_reason_of_the_api_is_read(play: Callable[..., Any], name: str, stop: StopReason):
    class Stopping(AnthropicWire):
        def reply(self, *given: Any) -> Json:
            return {**super().reply(*given), "stop_reason": name}

    adapter, _ = play(said("Words."), said("Words."), wire=Stopping)
    assert adapter.send(REQUEST).stop_reason is stop
    assert adapter.send(REQUEST, print).stop_reason is stop


def test_a_refusal_without_text_has_its_explanation(play: Callable[..., Any]):
    class Refusing(AnthropicWire):
        def reply(self, *given: Any) -> Json:
            details = {"type": "refusal", "category": "cyber", "explanation": "It can do harm."}
            return {**super().reply(*given), "stop_details": details}

    adapter, _ = play(said("", StopReason.REFUSED), wire=Refusing)
    turn = adapter.send(REQUEST)
    assert (turn.text, turn.stop_reason) == ("It can do harm.", StopReason.REFUSED)


def test_a_turn_that_the_provider_pauses_goes_on(play: Callable[..., Any]):
    adapter, played = play(said("", StopReason.INCOMPLETE), said("Found."))
    prompt = Prompt.of("demo", "words", [MarkdownSection(key="w", title="W", tools=[look_up])])
    with Host(discover=False) as host:
        result, session = Agent[Any](prompt, adapter=adapter, host=host).execute("Go")

    assert (result.text, result.turns) == ("Found.", 2)
    [_, paused] = played.requests[1]["messages"]
    assert paused == {"role": "assistant", "content": played.sent[0]["content"]}
    assert [message.text for message in session[Message].all()] == ["Go", "", "Found."]


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ("overloaded_error", FaultType.UNAVAILABLE),
        ("rate_limit_error", FaultType.RATE_LIMIT),
    ],
)
def test_a_fault_in_the_midst_of_a_stream_may_be_retried(
    play: Callable[..., Any], error: str, fault: FaultType
):
    class Failing(AnthropicWire):
        def events(self, reply: Json, body: Json) -> Events:
            told = {"type": "error", "error": {"type": error, "message": "Later."}}
            return [*super().events(reply, body)[:3], told]

    adapter, _ = play(said("Words."), wire=Failing)
    with pytest.raises(ProviderError, match=r"anthropic: Later\. \(asked at ") as raised:
        adapter.send(REQUEST, print)
    assert raised.value.type is fault
    # The API has told by then what it read.
    assert raised.value.usage == replace(USAGE, output_tokens=1)


@pytest.mark.parametrize("is_clean", [False, True], ids=["broken", "ended"])
def test_a_stream_that_breaks_off_has_taken_the_tokens_that_it_began_with(
    play: Callable[..., Any], *, is_clean: bool
):
    adapter, _ = play(Cut(said("Words."), is_clean=is_clean))
    with pytest.raises(ProviderError) as raised:
        adapter.send(REQUEST, print)
    assert raised.value.usage == replace(USAGE, output_tokens=1)


def test_arguments_that_a_stream_breaks_off_are_not_completed(play: Callable[..., Any]):
    adapter, _ = play(called(("look_up", '{"word": "half')))
    assert adapter.send(REQUEST, print).tool_calls[0].arguments == '{"word": "half'


def test_arguments_that_cannot_become_json_are_those_of_the_call(play: Callable[..., Any]):
    adapter, _ = play(called(("look_up", '{"word": nothing')))
    assert adapter.send(REQUEST, print).tool_calls[0].arguments == '{"word": nothing'


def test_tokens_of_the_cache_are_input(play: Callable[..., Any]):
    adapter, played = play(said("Words."))
    assert adapter.send(REQUEST).usage == USAGE
    assert played.sent[0]["usage"]["input_tokens"] < USAGE.input_tokens - USAGE.cached_tokens


def test_the_key_is_not_in_the_repr():
    provider: Provider = PROVIDERS["anthropic"]
    adapter = provider.adapter(provider.model, api_key="sk-of-nobody")
    assert "sk-of-nobody" not in repr(adapter)

"""The requests to both of OpenAI's APIs, and replies that are out of the ordinary."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest
from tests.plugins.agent.providers.chat_wire import ChatWire
from tests.plugins.agent.providers.played_server import USAGE, called, said
from tests.plugins.agent.providers.responses_wire import ResponsesWire

from toolstile import tool
from toolstile_hookspecs.agents.messages import CallAnswer, CallMade, Message, Role, StopReason
from toolstile_hookspecs.agents.provider import Delta, FaultType, ModelRequest, ProviderError
from toolstile_plugins.agent.providers.openai_chat import OpenAIChat
from toolstile_plugins.agent.providers.openai_responses import OpenAIResponses

LOCAL = "http://localhost/v1"
OPENAI = "https://api.openai.com/v1"
USER = Message.user("Hello.")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
def find(text: str, filters: dict[str, str]) -> str:
    """Find a text."""
    return text


class Api:
    """Answers the real client without a network; keeps the bodies that it is sent."""

    def __init__(self, *replies: Any, url: str = LOCAL) -> None:
        self.bodies: list[Any] = []
        self._replies = iter(replies)
        transport = httpx2.MockTransport(self._answer)
        self.client = openai.OpenAI(
            base_url=url, api_key="sk-of-nobody", http_client=httpx2.Client(transport=transport)
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        reply = next(self._replies)
        reply = reply(body) if callable(reply) else reply
        if isinstance(reply, dict):
            return httpx2.Response(200, json=reply)
        lines = "".join(f"data: {json.dumps(event)}\n\n" for event in reply)
        return httpx2.Response(200, text=lines, headers={"content-type": "text/event-stream"})


def chat(**changes: Any) -> Callable[[Any], Any]:
    def reply(body: Any) -> Any:
        whole = ChatWire().reply(said("Hello."), 1, body)
        choice = whole["choices"][0]
        choice["message"] |= changes.pop("message", {})
        choice |= {name: changes.pop(name) for name in ("finish_reason",) if name in changes}
        return {**whole, **changes}

    return reply


def response(turn: Any = None, **changes: Any) -> Callable[[Any], Any]:
    return lambda body: {**ResponsesWire().reply(turn or said("Hello."), 1, body), **changes}


def ask_chat(*replies: Any, url: str = LOCAL, listen: Any = None, **request: Any) -> Any:
    api = Api(*(replies or (chat(),)), url=url)
    adapter = OpenAIChat("gpt-5-mini", client=api.client)
    messages = request.pop("messages", [USER])
    return adapter.send(ModelRequest("Greet.", messages, **request), listen), api.bodies[0]


def ask_responses(*replies: Any, model: str = "gpt-5-mini", listen: Any = None, **more: Any) -> Any:
    api = Api(*(replies or (response(),)))
    adapter = OpenAIResponses(model, client=api.client)
    messages = more.pop("messages", [USER])
    return adapter.send(ModelRequest("Greet.", messages, **more), listen), api.bodies[0]


def test_chat_is_sent_nothing_that_was_not_set():
    _, body = ask_chat()
    assert body == {
        "model": "gpt-5-mini",
        "messages": [
            {"role": "system", "content": "Greet."},
            {"role": "user", "content": "Hello."},
        ],
    }


def test_responses_are_sent_nothing_that_was_not_set():
    _, body = ask_responses()
    assert body == {
        "model": "gpt-5-mini",
        "instructions": "Greet.",
        "input": [{"role": "user", "content": "Hello."}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


@pytest.mark.parametrize(
    ("model", "settings", "is_encrypted"),
    [
        ("gpt-5-mini", {}, True),
        ("gpt-5.2-codex", {}, True),
        ("o4-mini", {}, True),
        ("gpt-4o", {}, False),
        ("gpt-5-chat-latest", {}, False),
        ("my-deployment", {"reasoning_effort": "low"}, True),
        ("gpt-5-mini", {"include": []}, False),
    ],
)
def test_reasoning_is_encrypted_for_models_that_reason(
    model: str, settings: Any, is_encrypted: bool
):
    _, body = ask_responses(model=model, settings=settings)
    assert bool(body.get("include")) is is_encrypted


def test_settings_are_sent_under_the_names_of_chat():
    _, body = ask_chat(
        tools=[add],
        settings={
            "temperature": 0,
            "stop": ["END"],
            "seed": 7,
            "max_tokens": 50,
            "reasoning_effort": "low",
            "tool_choice": "add",
            "parallel_tool_calls": False,
        },
    )
    assert {name: body[name] for name in body if name not in {"model", "messages", "tools"}} == {
        "temperature": 0,
        "stop": ["END"],
        "seed": 7,
        "max_tokens": 50,
        "reasoning_effort": "low",
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
    }


def test_openai_itself_gets_the_newer_name_of_max_tokens():
    _, body = ask_chat(url=OPENAI, settings={"max_tokens": 50})
    assert body["max_completion_tokens"] == 50
    assert "max_tokens" not in body


def test_settings_are_sent_under_the_names_of_responses():
    _, body = ask_responses(
        tools=[add],
        output=SCHEMA,
        settings={
            "max_tokens": 50,
            "reasoning_effort": "low",
            "verbosity": "low",
            "tool_choice": "add",
        },
    )
    assert body["max_output_tokens"] == 50
    assert body["reasoning"] == {"effort": "low"}
    assert body["tool_choice"] == {"type": "function", "name": "add"}
    assert body["text"]["verbosity"] == "low"
    assert body["text"]["format"]["strict"] is True
    assert body["text"]["format"]["schema"]["required"] == ["n"]


@pytest.mark.parametrize("ask", [ask_chat, ask_responses])
@pytest.mark.parametrize("choice", ["auto", "none", "required", {"type": "allowed_tools"}])
def test_a_choice_of_tools_that_names_none_is_sent_as_it_is(ask: Any, choice: Any):
    _, body = ask(tools=[add], settings={"tool_choice": choice})
    assert body["tool_choice"] == choice


@pytest.mark.parametrize("ask", [ask_chat, ask_responses])
def test_settings_of_tools_are_left_out_where_there_is_none(ask: Any):
    _, body = ask(settings={"tool_choice": "required", "parallel_tool_calls": False})
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


def test_tools_and_answers_are_strict_where_their_schemas_allow_it():
    optional = {"type": "object", "properties": {"n": {"type": "integer"}}}
    _, body = ask_chat(tools=[add, find], output=optional)
    assert [each["function"]["strict"] for each in body["tools"]] == [True, False]
    assert body["response_format"]["json_schema"]["strict"] is False
    assert body["response_format"]["json_schema"]["schema"] == optional


def test_messages_of_others_are_written_from_their_fields():
    call = CallMade("call_1", "add", '{"a": 1}')
    messages = [
        USER,
        Message(
            Role.ASSISTANT, "Let me see.", (call,), dialect="anthropic", items=({"type": "x"},)
        ),
        Message.results([CallAnswer("call_1", "add", "2")]),
    ]
    _, body = ask_chat(messages=messages)
    function = {"name": "add", "arguments": '{"a": 1}'}
    assert body["messages"][2:] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "2"},
    ]
    _, body = ask_responses(messages=messages)
    assert body["input"][1:] == [
        {"role": "assistant", "content": "Let me see."},
        {"type": "function_call", "call_id": "call_1", **function},
        {"type": "function_call_output", "call_id": "call_1", "output": "2"},
    ]


def test_reasoning_that_came_without_its_content_is_not_sent_back():
    turn, _ = ask_responses(response(called(("add", {"a": 1}))), model="gpt-4o")
    assert turn.message.items[0]["encrypted_content"] is None
    result = Message.results([CallAnswer(turn.tool_calls[0].id, "add", "2")])
    _, body = ask_responses(messages=[USER, turn.message, result], model="gpt-4o")
    assert [item.get("type") for item in body["input"]] == [
        None,
        "function_call",
        "function_call_output",
    ]


def test_the_items_of_a_response_that_was_cut_off_are_not_sent_back():
    cut = called(("add", '{"a": '), text="I", stop=StopReason.MAX_TOKENS)
    turn, _ = ask_responses(response(cut))
    assert turn.stop_reason is StopReason.MAX_TOKENS
    assert (turn.message.items, turn.message.dialect) == ((), "")
    assert turn.tool_calls[0].name == "add"


@pytest.mark.parametrize(
    ("changes", "stop"),
    [
        ({"finish_reason": "stop"}, StopReason.END),
        ({"finish_reason": "eos"}, StopReason.END),
        ({"finish_reason": "length"}, StopReason.MAX_TOKENS),
        ({"finish_reason": "content_filter"}, StopReason.REFUSED),
        ({"message": {"content": None, "refusal": "No."}}, StopReason.REFUSED),
    ],
)
def test_chat_tells_why_a_reply_ended(changes: Any, stop: StopReason):
    turn, _ = ask_chat(chat(**changes))
    assert turn.stop_reason is stop


def test_calls_wait_for_results_whatever_the_server_says():
    turn, _ = ask_chat(
        lambda body: {
            **(reply := ChatWire().reply(called(("add", {"a": 1})), 1, body)),
            "choices": [{**reply["choices"][0], "finish_reason": "stop"}],
        }
    )
    assert turn.stop_reason is StopReason.TOOL_USE


def test_calls_without_an_id_get_the_one_that_their_results_have():
    function = {"name": "add", "arguments": '{"a": 1}'}
    calls = [{"id": "", "type": "function", "function": function} for _ in range(2)]
    turn, _ = ask_chat(chat(message={"tool_calls": calls}, finish_reason="tool_calls"))
    told = Message.results([CallAnswer(call.id, "add", "2") for call in turn.tool_calls])
    _, body = ask_chat(messages=[USER, turn.message, told])
    sent = [call["id"] for call in body["messages"][2]["tool_calls"]]
    assert sent == [message["tool_call_id"] for message in body["messages"][3:]]
    assert len(set(sent)) == 2


def test_a_filter_of_the_provider_is_a_refusal():
    reason = {"incomplete_details": {"reason": "content_filter"}, "status": "incomplete"}
    turn, _ = ask_responses(response(**reason))
    assert turn.stop_reason is StopReason.REFUSED


@pytest.mark.parametrize("ask", [ask_chat, ask_responses])
def test_missing_usage_is_not_guessed(ask: Any):
    reply = chat(usage=None) if ask is ask_chat else response(usage=None)
    turn, _ = ask(reply)
    assert turn.usage is None


@pytest.mark.parametrize(
    "changes",
    [{"choices": []}, {"choices": None}, {"finish_reason": None}, {"finish_reason": "error"}],
    ids=str,
)
def test_a_completion_without_its_end_is_none(changes: Any):
    with pytest.raises(ProviderError, match="ended before it was whole") as raised:
        ask_chat(chat(**changes))
    assert (raised.value.type, raised.value.usage) == (FaultType.UNAVAILABLE, USAGE)


@pytest.mark.parametrize(
    ("code", "type_"),
    [
        ("server_error", FaultType.UNAVAILABLE),
        ("rate_limit_exceeded", FaultType.RATE_LIMIT),
        ("invalid_prompt", FaultType.REFUSED),
    ],
)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_response_that_failed_is_a_fault(code: str, type_: FaultType, is_streamed: bool):
    error = {"code": code, "message": "It broke."}
    failed = response(status="failed", error=error)

    def reply(body: Any) -> Any:
        whole = failed(body)
        event = {"type": "response.failed", "sequence_number": 1, "response": whole}
        return [event] if is_streamed else whole

    with pytest.raises(ProviderError, match=r"It broke\.") as raised:
        ask_responses(reply, listen=print if is_streamed else None)
    assert (raised.value.type, raised.value.usage) == (type_, USAGE)


@pytest.mark.parametrize("ask", [ask_chat, ask_responses])
def test_an_error_within_a_stream_is_a_fault(ask: Any):
    told = {"code": "server_error", "message": "It broke.", "param": None}
    event = {"error": told} if ask is ask_chat else {"type": "error", "sequence_number": 1, **told}
    with pytest.raises(ProviderError, match=r"It broke\.") as raised:
        ask([event], listen=print)
    assert raised.value.type is FaultType.UNAVAILABLE


@pytest.mark.parametrize("ask", [ask_chat, ask_responses])
def test_a_stream_that_ends_before_it_begins_is_a_fault(ask: Any):
    with pytest.raises(ProviderError, match="ended before it was whole") as raised:
        ask([], listen=print)
    assert raised.value.type is FaultType.UNAVAILABLE


def test_a_stream_gives_the_items_that_a_whole_reply_gives():
    wire = ChatWire()
    made = called(("add", {"a": 1}), ("add", {"a": 2}), text="Let me see.")

    def streamed(body: Any) -> Any:
        return wire.events(wire.reply(made, 1, body), body)[:-1]

    whole, _ = ask_chat(lambda body: wire.reply(made, 1, body))
    heard: list[Delta] = []
    turn, body = ask_chat(streamed, listen=heard.append)
    assert body["stream_options"] == {"include_usage": True}
    assert "".join(delta for delta in heard if isinstance(delta, str)) == "Let me see."
    [item], [other] = whole.message.items, turn.message.items
    assert item.pop("annotations") == []
    assert item == other
    assert (whole.usage, whole.stop_reason) == (turn.usage, turn.stop_reason)

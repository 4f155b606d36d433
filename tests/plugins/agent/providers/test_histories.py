"""Every history goes back in the provider's protocol, also one that an earlier release stored."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from toolstile import tool
from toolstile_hookspecs.agents.messages import CallAnswer, CallMade, Message, Role
from toolstile_hookspecs.agents.provider import ModelRequest
from toolstile_hookspecs.testing.providers import AnthropicApi, ChatApi, ResponsesApi
from toolstile_plugins.agent.providers.anthropic import Anthropic
from toolstile_plugins.agent.providers.litellm import LiteLLM
from toolstile_plugins.agent.providers.openai_chat import OpenAIChat
from toolstile_plugins.agent.providers.openai_responses import OpenAIResponses

USER = Message.user("Go")


@tool(category="read")
def look(path: str) -> str:
    """Look at a file."""
    return path


def chat_items(*calls: Any) -> tuple[dict[str, Any], ...]:
    made = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": given}, "own": 1}
        for id_, name, given in calls
    ]
    return ({"role": "assistant", "content": None, "reasoning_content": "Hm", "tool_calls": made},)


def response_items(*calls: Any) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"type": "function_call", "call_id": id_, "name": name, "arguments": given, "own": 1}
        for id_, name, given in calls
    )


def anthropic_items(*calls: Any) -> tuple[dict[str, Any], ...]:
    made = [
        {"type": "tool_use", "id": id_, "name": name, "input": given, "own": 1}
        for id_, name, given in calls
    ]
    return ({"type": "thinking", "thinking": "Hm", "signature": "s"}, *made)


@dataclass(frozen=True)
class Known:
    adapter: Any
    api: Any
    items: Any


KNOWN = {
    "chat": Known(OpenAIChat("m"), ChatApi(), chat_items),
    "litellm": Known(LiteLLM("m"), ChatApi(), chat_items),
    "responses": Known(OpenAIResponses("m"), ResponsesApi(), response_items),
    "anthropic": Known(Anthropic("m"), AnthropicApi(), anthropic_items),
}


@pytest.fixture(params=KNOWN)
def known(request: pytest.FixtureRequest) -> Known:
    return KNOWN[request.param]


def body_of(known: Known, *messages: Message) -> Any:
    request = ModelRequest("You look.", [USER, *messages], [look])
    return known.adapter.arguments(request)


def made_of(body: Any) -> list[dict[str, Any]]:
    """Return the provider's own calls in a request, wherever they stand."""
    found: list[Any] = []

    def note(part: dict[str, Any]) -> dict[str, Any]:
        found.extend([part] if part.get("own") else [])
        return part

    json.loads(json.dumps(body), object_hook=note)
    return found


FINE = ("a", "look", '{"path": "x"}')
HISTORIES: dict[str, list[list[tuple[Any, Any, Any]]]] = {
    "fine": [[FINE]],
    "an id twice in a reply": [[FINE, FINE]],
    "an id in each reply": [[FINE], [FINE]],
    "no ids": [[("", "look", "{}"), ("", "look", "{}")], [("", "look", "{}")]],
    "cut off": [[("a", "look", '{"path": "x')]],
    "no object": [[("a", "look", "[1]"), ("b", "look", "null"), ("c", "look", "")]],
    "not a number": [[("a", "look", '{"path": NaN}')]],
    "half a character": [
        [("a", "look", '{"path": "\\ud83d"}'), ("b", "l\ud83d", '{"p": "\ud83d"}')]
    ],
    "names": [[("a", "", "{}"), ("b", "look at it", "{}"), ("c", "l" * 300, "{}")]],
    "null arguments": [[("a", "look", None)]],
}


@pytest.mark.parametrize("dialect", ["own", "another", "none"])
@pytest.mark.parametrize("history", HISTORIES)
def test_whatever_a_model_made_goes_back_in_the_protocol(
    known: Known, history: str, dialect: str
) -> None:
    messages: list[Message] = []
    for calls in HISTORIES[history]:
        made = tuple(CallMade(id_, name, given or "") for id_, name, given in calls)
        names = {"own": known.adapter.dialect.name, "another": "of-another", "none": ""}
        items = known.items(*calls) if dialect != "none" else ()
        messages.append(Message(Role.ASSISTANT, "", made, dialect=names[dialect], items=items))
        messages.append(Message.results(CallAnswer(id_, name, "seen") for id_, name, _ in calls))

    body = body_of(known, *messages, Message.user("And now?"))

    assert list(known.api.faults(body)) == []
    # The provider's own items go back where they are its own.
    assert len(made_of(body)) == (sum(map(len, HISTORIES[history])) if dialect == "own" else 0)


@pytest.mark.parametrize("messages", [[], [Message.user("And now?")]], ids=["last", "gone on"])
def test_calls_that_have_no_result_get_one(known: Known, messages: list[Message]) -> None:
    reply = Message(Role.ASSISTANT, "I look.", (CallMade("a", "look"), CallMade("b", "look")))
    one = Message.results([CallAnswer("b", "look", "seen"), CallAnswer("z", "look", "nothing's")])
    body = body_of(known, reply, *messages, one)
    assert list(known.api.faults(body)) == []
    assert "not known" in str(body)
    assert "nothing's" not in str(body)


def test_the_id_of_another_provider_suits_this_one(known: Known, subtests: pytest.Subtests) -> None:
    for id_ in ["functions.look:0", "x" * 300, "\u00e9\ud83d"]:
        with subtests.test(id_=id_):
            reply = Message(
                Role.ASSISTANT, "", (CallMade("ours", "look", "{}", id_),), dialect="another"
            )
            body = body_of(known, reply, Message.results([CallAnswer("ours", "look", "seen")]))
            assert list(known.api.faults(body)) == []
            assert id_ not in str(body)


def test_an_id_of_its_own_goes_back_as_it_came() -> None:
    known = KNOWN["chat"]
    call = CallMade("ours", "look", "{}", "functions.look:0")
    items = chat_items(("functions.look:0", "look", "{}"))
    reply = Message(Role.ASSISTANT, "", (call,), dialect="openai", items=items)
    [_, _, asked, told] = body_of(
        known, reply, Message.results([CallAnswer("ours", "look", "seen")])
    )["messages"]
    assert asked["tool_calls"][0]["id"] == told["tool_call_id"] == "functions.look:0"


def test_items_with_other_calls_than_the_message_are_left_out(known: Known) -> None:
    two = (CallMade("a", "look"), CallMade("b", "look"))
    reply = Message(
        Role.ASSISTANT, "", two, dialect=known.adapter.dialect.name, items=known.items(FINE)
    )
    told = Message.results([CallAnswer("a", "look", "1"), CallAnswer("b", "look", "2")])
    body = body_of(known, reply, told)
    assert list(known.api.faults(body)) == []
    assert made_of(body) == []


def test_a_reply_of_the_time_before_tool_calls_goes_back_as_one_of_today() -> None:
    item = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "look", "arguments": ""},
    }
    reply = Message(Role.ASSISTANT, "", (CallMade("a", "look"),), dialect="openai", items=(item,))
    body = body_of(KNOWN["chat"], reply, Message.results([CallAnswer("a", "look", "seen")]))
    assert list(ChatApi().faults(body)) == []


def test_the_fakes_refuse_what_is_broken(known: Known, subtests: pytest.Subtests) -> None:
    """Else no test above could fail."""
    for fault in ["leaves out", "twice", "broken", "no object", "name"]:
        with subtests.test(fault=fault):
            calls = {
                "twice": [FINE, FINE],
                "broken": [("a", "look", '{"p')],
                "name": [("a", "", "{}")],
            }
            made = calls.get(fault, [("a", "look", "[1]" if fault == "no object" else "{}")])
            told = [] if fault == "leaves out" else [id_ for id_, *_ in made]
            body: dict[str, Any] = {"messages": [{"role": "user", "content": "Go"}]}
            if known.api.path == "/responses":
                results = [
                    {"type": "function_call_output", "call_id": id_, "output": "x"} for id_ in told
                ]
                body = {"input": [*response_items(*made), *results]}
            elif known.api.path == "/v1/messages":
                results = [
                    {"type": "tool_result", "tool_use_id": id_, "content": "x"} for id_ in told
                ]
                body["messages"].append({"role": "assistant", "content": [*anthropic_items(*made)]})
                body["messages"].append({"role": "user", "content": results})
            else:
                results = [{"role": "tool", "tool_call_id": id_, "content": "x"} for id_ in told]
                body["messages"] += [*chat_items(*made), *results]
            assert list(known.api.faults(body)) != []


def test_texts_of_half_a_character_can_be_sent(known: Known) -> None:
    half = "\ud83d"
    item = {"type": "text", "text": half} if known is KNOWN["anthropic"] else {"content": half}
    item = {"role": "assistant", "type": item.get("type", "message"), **item}
    reply = Message(Role.ASSISTANT, half, dialect=known.adapter.dialect.name, items=(item,))
    body = replace(ModelRequest(half, [Message.user(half), reply]))
    str(known.adapter.arguments(body)).encode()

"""Replies of real servers that no API describes, each read as meant or told as a fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.plugins.agent.providers.providers import KNOWN, NAMES

from toolstile import Host, MarkdownSection, Prompt, tool
from toolstile_hookspecs.agents.messages import (
    CallAnswer,
    CallMade,
    Message,
    Role,
    StopReason,
    Turn,
    Usage,
)
from toolstile_hookspecs.agents.provider import (
    CallDelta,
    Delta,
    FaultType,
    ModelRequest,
    ProviderError,
    ThoughtDelta,
)
from toolstile_hookspecs.testing.provider_adapter import calls_of
from toolstile_hookspecs.testing.providers import (
    AnthropicApi,
    ChatApi,
    FakeProvider,
    Json,
    ResponsesApi,
)
from toolstile_plugins.agent import Agent, AgentConfig, Retries, effects as requesting
from toolstile_plugins.dialects.streams import ChatCalls

pytestmark = pytest.mark.slow

APIS: dict[str, Any] = {
    "anthropic": AnthropicApi(),
    "litellm": ChatApi(),
    "openai-chat": ChatApi(),
    "openai-responses": ResponsesApi(),
}
CHAT = [
    pytest.param(*each.values, marks=each.marks)
    for each in NAMES
    if "chat" in str(each) or "litellm" in str(each)
]
X, Y = '{"path": "x"}', '{"path": "y"}'


@tool(category="read")
def look(path: str) -> str:
    """Look at a file."""
    return f"seen {path}"


DESK = Prompt.of("demo", "desk", [MarkdownSection(key="d", title="D", tools=[look])])
ASKED = ModelRequest("You look.", [Message.user("Go")], [look], timeout=20)


def calling(*calls: tuple[str, str], text: str = "") -> Turn:
    made = tuple(CallMade(id_, "look", given) for id_, given in calls)
    return Turn(Message(Role.ASSISTANT, text, made), StopReason.TOOL_USE, Usage(20, 5))


def saying(text: str) -> Turn:
    return Turn(Message(Role.ASSISTANT, text), StopReason.END, Usage(20, 5))


def adapter_for(name: str, fake: FakeProvider) -> Any:
    known = KNOWN[name]
    return known.adapter(known.model, **known.options(fake.url))


@pytest.fixture(params=["whole", "streamed", "async", "async-streamed"])
def send(request: pytest.FixtureRequest) -> Callable[..., tuple[Turn, list[Delta]]]:
    def send(adapter: Any, asked: ModelRequest = ASKED) -> tuple[Turn, list[Delta]]:
        heard: list[Delta] = []
        listen = heard.append if "streamed" in request.param else None

        async def sent() -> Turn:
            async with adapter:
                turn: Turn = await adapter.asend(asked, listen)
                return turn

        if "async" in request.param:
            return asyncio.run(sent()), heard
        with adapter:
            turn: Turn = adapter.send(asked, listen)
            return turn, heard

    return send


# --- Odd streams of Chat Completions


def part(index: Any = None, id_: Any = None, name: Any = None, given: Any = None) -> Json:
    told = {"index": index, "id": id_, "function": {"name": name, "arguments": given}}
    return {"tool_calls": [{key: value for key, value in told.items() if value is not None}]}


def chunks(*deltas: Json, finish: str = "tool_calls") -> list[Any]:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    told = [({"role": "assistant"}, None), *((delta, None) for delta in deltas), ({}, finish)]
    return [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in told
    ] + ["[DONE]"]


ODD: dict[str, tuple[list[Json], list[str]]] = {
    "an index for all": ([part(0, "a", "look", X), part(0, "b", "look", Y)], [X, Y]),
    "an index for all, by turns": (
        [
            *(part(0, "a", "look", X[:4]), part(0, "b", "look", Y[:4])),
            *(part(0, "a", None, X[4:]), part(0, "b", None, Y[4:])),
        ],
        [X, Y],
    ),
    "no index": ([part(None, "a", "look", X), part(None, "b", "look", Y)], [X, Y]),
    "no index, in pieces": (
        [
            *(part(None, "a", "look", X[:4]), part(None, None, None, X[4:])),
            *(part(None, "b", "look", Y[:4]), part(None, None, None, Y[4:])),
        ],
        [X, Y],
    ),
    "an index at first": ([part(0, "a", "look", X[:4]), part(None, None, None, X[4:])], [X]),
    "indices with a gap": ([part(3, "a", "look", X), part(7, "b", "look", Y)], [X, Y]),
    "id and name in each piece": (
        [part(0, "a", "look", ""), part(0, "a", "look", X[:4]), part(0, "a", "look", X[4:])],
        [X],
    ),
    "an id for all": ([part(0, "a", "look", X), part(1, "a", "look", Y)], [X, Y]),
    "an id and an index for all": ([part(0, "a", "look", X), part(0, "a", "look", Y)], [X, Y]),
    "no ids": ([part(0, "", "look", X), part(0, "", "look", Y)], [X, Y]),
    "no ids, in pieces": (
        [
            *(part(0, None, "look", ""), part(0, None, None, X)),
            *(part(0, None, "look", ""), part(0, None, None, Y)),
        ],
        [X, Y],
    ),
    "no ids and no index, in pieces": (
        [
            *(part(None, None, "look", ""), part(None, None, None, X)),
            *(part(None, None, "look", ""), part(None, None, None, Y)),
        ],
        [X, Y],
    ),
    "another id in each piece": (
        [part(0, "a", "look", ""), part(0, "b", None, X[:4]), part(0, "c", None, X[4:])],
        [X],
    ),
    "another index in each piece": (
        [part(0, "a", "look", ""), part(1, "a", None, X[:4]), part(2, None, None, X[4:])],
        [X],
    ),
    "no index at first": ([part(None, "a", "look", X[:4]), part(0, None, None, X[4:])], [X]),
    "an empty piece at the end": ([part(0, "a", "look", X), part(0, "a", "look", "")], [X]),
}


def test_two_names_are_two_calls_though_neither_has_arguments_and_an_id() -> None:
    reader = ChatCalls()
    for name in ("look", "wait"):
        reader.add(part(0, None, name, "")["tool_calls"][0])
    assert [call.name for *_, call in reader.known] == ["look", "wait"]


@pytest.mark.parametrize("name", CHAT)
@pytest.mark.parametrize("odd", ODD)
def test_calls_of_a_stream_are_told_apart(name: str, odd: str) -> None:
    pieces, expected = ODD[odd]
    heard: list[Delta] = []
    with FakeProvider(ChatApi(), chunks(*pieces)) as fake, adapter_for(name, fake) as adapter:
        turn = adapter.send(ASKED, heard.append)
    assert [(call.name, call.arguments) for call in turn.tool_calls] == [
        ("look", given) for given in expected
    ]
    told = "".join(str(getattr(delta, "arguments", "")) for delta in heard)
    assert sorted(told) == sorted("".join(expected))


# --- All APIs


@pytest.mark.parametrize("name", NAMES)
def test_ids_that_come_again_and_broken_arguments_end_no_session(
    name: str, send: Callable[..., Any]
) -> None:
    script = [
        calling(("call_0", X), ("call_0", Y)),
        calling(("call_0", '{"path": "x'), ("", "[1]")),
        saying("Done."),
    ]
    with FakeProvider(APIS[name], *script) as fake:
        messages, turn = [*ASKED.messages], script[0]
        for _ in script:
            turn, heard = send(adapter_for(name, fake), replace(ASKED, messages=messages))
            told = [CallAnswer(call.id, call.name, "seen") for call in turn.tool_calls]
            messages += [turn.message, Message.results(told)]
            pieces = "".join(each.arguments for each in heard if isinstance(each, CallDelta))
            assert not heard or pieces == "".join(call.arguments for call in turn.tool_calls)
        assert turn.text == "Done."
        assert fake.refused == []


@pytest.mark.parametrize("name", NAMES)
def test_thoughts_before_an_answer_are_no_part_of_it(name: str, send: Callable[..., Any]) -> None:
    text = "\n<think>\nNow <b>this</b>, or that?\n</think>\n\nThis one."
    with FakeProvider(APIS[name], saying(text), saying("<thin ice"), saying("<think>Hm")) as fake:
        told, heard = send(adapter_for(name, fake))
        plain, more = send(adapter_for(name, fake))
        endless, _ = send(adapter_for(name, fake))
    assert (told.text, plain.text, endless.text) == ("This one.", "<thin ice", "")
    if heard:
        assert "".join(each for each in heard if isinstance(each, str)) == "This one."
        thoughts = "".join(each.text for each in heard if isinstance(each, ThoughtDelta))
        assert thoughts == "\nNow <b>this</b>, or that?\n"
        assert "".join(each for each in more if isinstance(each, str)) == "<thin ice"


FAULTS = {
    "overloaded": ("server_error", FaultType.UNAVAILABLE, 2),
    "invalid": ("invalid_request_error", FaultType.REFUSED, 1),
    "quota": ("insufficient_quota", FaultType.QUOTA, 1),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("listen", [None, str], ids=["whole", "streamed"])
def test_a_fault_within_a_good_answer_is_told_in_the_providers_words(
    name: str, fault: str, listen: Any
) -> None:
    code, type_, _ = FAULTS[fault]
    error = {"message": "The model is out of paper.", "type": code, "code": code}
    body: Any = {"type": "error", "error": error} if name == "anthropic" else {"error": error}
    if name == "openai-responses" and listen:
        body = {**error, "type": "error"}
    answer = body if listen is None else [body]
    with (
        FakeProvider(APIS[name], answer) as fake,
        adapter_for(name, fake) as adapter,
        pytest.raises(ProviderError) as raised,
    ):
        adapter.send(ASKED, listen)
    assert "out of paper" in str(raised.value)
    assert raised.value.type is type_


@pytest.mark.parametrize("listen", [None, str], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "body",
    [
        {"error": "Out of paper."},
        {"error": [{"message": "Out of paper."}]},
        {"errors": [{"message": "Out of paper."}]},
        {"object": "error", "message": "Out of paper.", "code": 500},
        {"detail": [{"loc": ["body"], "msg": "Out of paper."}]},
        {"base_resp": {"status_code": 1008, "status_msg": "Out of paper."}},
        {
            "choices": [
                {"index": 0, "finish_reason": "error", "error": {"message": "Out of paper."}}
            ]
        },
    ],
)
def test_a_fault_has_the_words_of_any_shape(body: Json, listen: Any) -> None:
    with (
        FakeProvider(ChatApi(), body if listen is None else [body]) as fake,
        adapter_for("openai-chat", fake) as adapter,
        pytest.raises(ProviderError, match=r"^openai: Out of paper\. \(asked at") as raised,
    ):
        adapter.send(ASKED, listen)
    assert raised.value.type is FaultType.UNAVAILABLE


@pytest.mark.parametrize("name", ["anthropic", "openai-responses"])
@pytest.mark.parametrize("body", [{"error": "Out of paper."}, {"detail": "Out of paper."}])
def test_the_other_apis_have_the_words_of_a_fault_too(name: str, body: Json) -> None:
    with (
        FakeProvider(APIS[name], body) as fake,
        adapter_for(name, fake) as adapter,
        pytest.raises(ProviderError, match="Out of paper"),
    ):
        adapter.send(ASKED)


@pytest.mark.parametrize("name", CHAT)
@pytest.mark.parametrize("used", [None, {}, {"prompt_tokens": None, "completion_tokens": 5}])
def test_a_usage_that_lacks_counts_ends_no_run(name: str, used: Any) -> None:
    reply = ChatApi().reply(saying("Blue."), 1, {}) | {"usage": used}
    with FakeProvider(ChatApi(), reply) as fake, adapter_for(name, fake) as adapter:
        assert adapter.send(ASKED).text == "Blue."


@pytest.mark.parametrize("used", [{}, {"output_tokens": 5}, {"input_tokens": None}])
def test_a_usage_that_lacks_counts_ends_no_run_with_anthropic(used: Json) -> None:
    reply = APIS["anthropic"].reply(saying("Blue."), 1, {}) | {"usage": used}
    with FakeProvider(APIS["anthropic"], reply) as fake, adapter_for("anthropic", fake) as adapter:
        assert adapter.send(ASKED).text == "Blue."


def test_a_whole_message_in_a_stream_is_read() -> None:
    reply = ChatApi().reply(calling(("a", X), text="I look."), 1, {})
    heard: list[Delta] = []
    with FakeProvider(ChatApi(), [reply]) as fake, adapter_for("openai-chat", fake) as adapter:
        turn = adapter.send(ASKED, heard.append)
    assert (turn.text, turn.tool_calls) == ("I look.", (CallMade("a", "look", X),))
    assert heard == ["I look.", CallDelta("a", "look", X)]


@pytest.mark.parametrize("name", [each for each in NAMES if "litellm" not in str(each)])
@pytest.mark.parametrize("fault", FAULTS)
def test_such_a_fault_is_asked_about_again_where_that_helps(
    name: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requesting, "FIRST_WAIT", 0.001)
    code, _, requests = FAULTS[fault]
    error = {"message": "Out of paper.", "type": code}
    body = {"type": "error", "error": error}
    with FakeProvider(APIS[name], body, saying("Now.")) as fake, Host(discover=False) as host:
        config = AgentConfig(retries=Retries(attempts=2))
        agent = Agent[str](DESK, adapter=adapter_for(name, fake), host=host, config=config)
        result = agent.run("Go")
    assert len(fake.requests) == requests
    assert result.text == ("Now." if requests > 1 else "")
    assert requests > 1 or "Out of paper." in str(result.error)


def test_content_in_parts_is_text() -> None:
    """LiteLLM itself takes no content in parts."""
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "blue."},
    ]
    reply = ChatApi().reply(saying("x"), 1, {})
    reply["choices"][0]["message"]["content"] = content
    streamed = chunks({"content": content[:2]}, {"content": content[2:]}, finish="stop")
    heard: list[Delta] = []
    with (
        FakeProvider(ChatApi(), reply, streamed) as fake,
        adapter_for("openai-chat", fake) as adapter,
    ):
        assert adapter.send(ASKED).text == "It is blue."
        assert adapter.send(ASKED, heard.append).text == "It is blue."
    assert heard == ["It is ", "blue."]


BLUE: Json = {"type": "text", "text": "Blue."}
CONTENTS: list[tuple[Any, str]] = [
    ("Blue.", "Blue."),
    (["Blu", "e."], "Blue."),
    ([None, BLUE], "Blue."),
    ([BLUE, {"type": "text", "text": None}, {"type": "text"}], "Blue."),
    ("<THINK>Hm.</THINK>Blue.", "Blue."),
    (BLUE, "Blue."),
    ([{"type": "text", "text": None}], ""),
    (None, ""),
]


@pytest.mark.parametrize("listen", [None, str], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ["anthropic", "openai-responses"])
@pytest.mark.parametrize(("content", "text"), CONTENTS)
def test_content_of_other_forms_is_read_and_goes_back_as_its_api_takes_it(
    name: str, content: Any, text: str, listen: Any
) -> None:
    api = APIS[name]
    reply = api.reply(saying("x"), 1, {})
    events: Any = [*api.events(api.reply(saying("x"), 1, {}), {})]
    if name == "openai-responses":
        reply["output"][0]["content"] = content
        events[-1] = {**events[-1], "response": reply}
    else:
        reply["content"] = content
        events = [each for each in events if not each["type"].startswith("content_block")]
        events[0] = {**events[0], "message": {**reply, "stop_reason": None}}
    script = reply if listen is None else events
    with FakeProvider(api, script, saying("Fine.")) as fake, adapter_for(name, fake) as adapter:
        turn = adapter.send(ASKED, listen)
        assert turn.text == text
        messages = [*ASKED.messages, turn.message, Message.user("Thanks")]
        assert adapter.send(replace(ASKED, messages=messages)).text == "Fine."
        assert fake.refused == []


@pytest.mark.parametrize("output", [None, "Blue.", [None], 5])
def test_a_response_without_a_list_of_items_is_a_fault_of_its_provider(output: Any) -> None:
    api = APIS["openai-responses"]
    reply = api.reply(saying("x"), 1, {}) | {"output": output}
    with (
        FakeProvider(api, reply) as fake,
        adapter_for("openai-responses", fake) as adapter,
        pytest.raises(ProviderError, match="not a reply of its API"),
    ):
        adapter.send(ASKED)


BROKEN: dict[str, tuple[str, Callable[[Json], Json]]] = {
    "no response": ("openai-responses", lambda each: {**each, "response": None}),
    "no item": ("openai-responses", lambda each: {**each, "item": None}),
    "a list for a delta": ("openai-chat", lambda each: {**each, "choices": [{"delta": [1]}]}),
    "a text for choices": ("openai-chat", lambda each: {**each, "choices": "x"}),
    "a number for a text": (
        "anthropic",
        lambda each: {**each, "delta": {"type": "text_delta", "text": 5}},
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_events_of_no_known_form_are_a_fault_of_their_provider(broken: str) -> None:
    name, change = BROKEN[broken]
    told: Any = APIS[name].events(APIS[name].reply(saying("Blue."), 1, {}), {"stream": True})
    events = [change(each) if isinstance(each, dict) else each for each in told]
    with (
        FakeProvider(APIS[name], events) as fake,
        adapter_for(name, fake) as adapter,
        pytest.raises(ProviderError, match="not a reply of its API"),
    ):
        adapter.send(ASKED, lambda _: None)


def test_an_error_of_the_listener_is_no_fault_of_the_provider() -> None:
    def listen(_: Delta) -> None:
        raise TypeError("mine")

    with (
        FakeProvider(APIS["openai-chat"], saying("Blue.")) as fake,
        adapter_for("openai-chat", fake) as adapter,
        pytest.raises(TypeError, match="mine"),
    ):
        adapter.send(ASKED, listen)


def test_a_response_whose_last_event_lacks_its_items_has_them() -> None:
    api = ResponsesApi()
    events: Any = [*api.events(api.reply(calling(("a", X), text="I look."), 1, {}), {})]
    events[-1] = {**events[-1], "response": {**events[-1]["response"], "output": []}}
    with FakeProvider(api, events) as fake, adapter_for("openai-responses", fake) as adapter:
        turn = adapter.send(ASKED, lambda _: None)
    assert (turn.text, [call.arguments for call in turn.tool_calls]) == ("I look.", [X])


@pytest.mark.parametrize("called", [False, True])
def test_a_response_that_streams_deltas_alone_has_its_text_and_its_calls(called: bool) -> None:
    api = ResponsesApi()
    script = calling(("a", X), text="I look.") if called else saying("I look.")
    events: Any = [*api.events(api.reply(script, 1, {}), {})]
    events[-1] = {**events[-1], "response": {**events[-1]["response"], "output": []}}
    events = [each for each in events if each.get("type") != "response.output_item.done"]
    with FakeProvider(api, events) as fake, adapter_for("openai-responses", fake) as adapter:
        turn = adapter.send(ASKED, lambda _: None)
    calls = [(call.name, call.arguments) for call in turn.tool_calls]
    assert (turn.text, calls) == ("I look.", [("look", X)] if called else [])


@pytest.mark.parametrize("indices", [lambda _: 0, lambda n: n + 4, lambda _: None])
def test_blocks_of_anthropic_are_told_apart_whatever_their_indices(indices: Any) -> None:
    api = AnthropicApi()
    told: Any = api.events(api.reply(calling(("a", X), ("b", Y), text="I look."), 1, {}), {})
    events = [
        {**each, "index": indices(each["index"])} if "index" in each else each for each in told
    ]
    heard: list[Delta] = []
    with FakeProvider(api, events) as fake, adapter_for("anthropic", fake) as adapter:
        turn = adapter.send(ASKED, heard.append)
    assert (turn.text, [call.arguments for call in turn.tool_calls]) == ("I look.", [X, Y])
    assert [each for each in heard if isinstance(each, str)] == ["I loo", "k."]
    assert [given for _, _, given in calls_of(heard)] == [{"path": "x"}, {"path": "y"}]

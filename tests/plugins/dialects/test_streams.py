"""A call that arrives in parts is joined, or refused; it never runs without its arguments."""

import json

import pytest
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from toolstile_plugins.dialects import Anthropic, Gemini, OpenAI, OpenAIResponses

PARTS = ['{"path": ', '"a.txt"', "}"]
WHOLE = "".join(PARTS)


def anthropic(name="look", parts=PARTS, index=0):
    block = {"type": "tool_use", "id": f"{name}-{index}", "name": name, "input": {}}
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *(
            {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": "input_json_delta", "partial_json": part},
            }
            for part in parts
        ),
        {"type": "content_block_stop", "index": index},
    ]


def anthropic_stream(*blocks, reason="tool_use"):
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "x",
        "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return [
        {"type": "message_start", "message": message},
        *(event for block in blocks for event in block),
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]


def chunk(delta=None, reason=None, stream="s"):
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": reason}]
    kind = {"object": "chat.completion.chunk", "created": 1, "model": "x"}
    return {"id": stream, **kind, "choices": choices}


def chat(index=0, name="look", parts=PARTS, stream="s", call_id=None):
    call_id = call_id or f"{name}-{index}"
    function = {"name": name, "arguments": ""}
    first = {"index": index, "id": call_id, "type": "function", "function": function}
    later = ({"index": index, "function": {"arguments": part}} for part in parts)
    return [chunk({"tool_calls": [part]}, stream=stream) for part in (first, *later)]


def chat_stream(*calls, reason="tool_calls", stream="s"):
    return [*(event for call in calls for event in call), chunk(reason=reason, stream=stream)]


def responses(name="look", parts=PARTS, index=0):
    item = {"type": "function_call", "id": f"fc-{index}", "call_id": f"{name}-{index}"}
    item |= {"name": name, "arguments": "", "status": "in_progress"}
    at = {"output_index": index, "sequence_number": 1}
    delta = {"type": "response.function_call_arguments.delta", "item_id": item["id"], **at}
    whole = "".join(parts)
    return [
        {"type": "response.output_item.added", "item": item, **at},
        *({**delta, "delta": part} for part in parts),
        {**delta, "type": f"{delta['type'][:-5]}done", "name": name, "arguments": whole},
        {
            "type": "response.output_item.done",
            "item": {**item, "arguments": whole, "status": "completed"},
            **at,
        },
    ]


STREAMS = {
    "anthropic": (Anthropic, RawMessageStreamEvent, anthropic, anthropic_stream),
    "chat": (OpenAI, ChatCompletionChunk, chat, chat_stream),
    "responses": (
        OpenAIResponses,
        ResponseStreamEvent,
        responses,
        lambda *calls: [event for call in calls for event in call],
    ),
}


def objects(type_, events):
    return TypeAdapter(list[type_]).validate_python(events)


def seen(calls):
    return [(call.wire_id, call.name, call.arguments) for call in calls]


@pytest.mark.parametrize("of_client", [False, True], ids=["saved", "objects of the client"])
@pytest.mark.parametrize("provider", STREAMS)
def test_the_parts_of_each_call_are_joined(provider, of_client):
    dialect, type_, call, stream = STREAMS[provider]
    events = stream(call(), call(index=1, name="see", parts=[]))
    given = objects(type_, events) if of_client else events
    expected = [("look-0", "look", WHOLE), ("see-1", "see", "{}")]
    assert seen(dialect().calls(given)) == expected
    assert seen(dialect().recorded(given)) == expected


@pytest.mark.parametrize("provider", STREAMS)
def test_a_stream_that_broke_off_gives_no_call_with_arguments_that_can_be_read(provider):
    dialect, _, call, stream = STREAMS[provider]
    events = stream(call())
    first = next(n for n, event in enumerate(events) if event.get("type") != "message_start")
    for end in range(first + 1, first + 1 + len(PARTS)):
        (broken,) = dialect().recorded(events[:end])
        assert broken.name == "look"
        with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
            json.loads(broken.arguments)


@pytest.mark.parametrize("provider", STREAMS)
def test_a_stream_without_calls_is_known_all_the_same(provider):
    texts = {
        "anthropic": anthropic_stream(),
        "chat": [chunk({"content": "Hi."}), chunk(reason="stop")],
        "responses": [{"type": "response.output_text.delta", "delta": "Hi."}],
    }
    assert STREAMS[provider][0]().recorded(texts[provider]) == []


def test_a_block_that_was_cut_off_is_refused_though_its_end_arrives():
    events = anthropic_stream(anthropic(), anthropic(index=1, parts=[]), reason="max_tokens")
    assert seen(Anthropic().calls(events)) == [("look-0", "look", WHOLE), ("look-1", "look", "{")]


@pytest.mark.parametrize("reason", ["max_tokens", "refusal"])
def test_the_last_block_of_a_reply_that_was_cut_off_is_refused(reason):
    blocks = [{"type": "tool_use", "id": str(n), "name": "look", "input": {}} for n in range(2)]
    reply = {"role": "assistant", "content": blocks, "stop_reason": reason}
    for calls in (Anthropic().calls(reply), Anthropic().recorded({"messages": [reply]}) or []):
        assert [call.arguments for call in calls] == [{}, "{"]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_the_last_call_of_a_completion_that_was_cut_off_is_refused(reason):
    calls = [
        {"id": str(n), "type": "function", "function": {"name": "look", "arguments": ""}}
        for n in range(2)
    ]
    message = {"role": "assistant", "tool_calls": calls}
    reply = {"choices": [{"message": message, "finish_reason": reason}]}
    assert [call.arguments for call in OpenAI().calls(reply)] == ["{}", "{"]
    streamed = chat_stream(chat(parts=[]), chat(index=1, parts=[]), reason=reason)
    assert [call.arguments for call in OpenAI().calls(streamed)] == ["{}", "{"]


def test_an_item_that_is_not_complete_is_refused():
    item = {"type": "function_call", "call_id": "1", "name": "look", "arguments": ""}
    assert OpenAI().calls({"output": [{**item, "status": "incomplete"}]})[0].arguments == "{"
    assert OpenAI().calls({"output": [{**item, "status": "completed"}]})[0].arguments == "{}"


def test_parallel_calls_that_a_server_gives_one_index_are_told_apart_by_their_ids():
    events = chat_stream(chat(call_id="a"), chat(call_id="b"))
    assert [call.wire_id for call in OpenAI().calls(events)] == ["a", "b"]


def test_parts_that_come_by_turns_find_their_calls():
    first, second = chat(), chat(index=1)
    by_turns = [event for pair in zip(first, second, strict=True) for event in pair]
    assert seen(OpenAI().calls(chat_stream(by_turns))) == [
        ("look-0", "look", WHOLE),
        ("look-1", "look", WHOLE),
    ]


def test_several_streams_one_after_the_other_are_read():
    chats = [*chat_stream(chat()), *chat_stream(chat(stream="t", call_id="b"), stream="t")]
    assert [call.wire_id for call in OpenAI().calls(chats)] == ["look-0", "b"]
    messages = [*anthropic_stream(anthropic()), *anthropic_stream(anthropic(name="see"))]
    assert [call.name for call in Anthropic().calls(messages)] == ["look", "see"]


def test_the_whole_response_at_the_end_stands_for_its_parts():
    item = {"type": "function_call", "call_id": "look-0", "name": "look", "arguments": WHOLE}
    end = {"type": "response.completed", "response": {"output": [item]}}
    later = {"type": "response.completed", "response": {"output": [{**item, "call_id": "b"}]}}
    calls = OpenAIResponses().calls([*responses(), end, later])
    assert [call.wire_id for call in calls] == ["look-0", "b"]


def test_the_one_call_from_before_there_were_several_is_joined():
    parts = [{"name": "look", "arguments": ""}, *({"arguments": part} for part in PARTS)]
    events = [chunk({"function_call": part}) for part in parts]
    (call,) = OpenAI().calls([*events, chunk(reason="function_call")])
    assert (call.name, call.arguments) == ("look", WHOLE)


def test_a_function_call_whose_arguments_come_in_parts_is_refused():
    wanted = {"name": "look", "partialArgs": [{"jsonPath": "$.path", "stringValue": "a"}]}
    reply = {"candidates": [{"content": {"parts": [{"functionCall": wanted}]}}]}
    assert Gemini().calls(reply)[0].arguments == "{"


def test_the_last_call_of_a_content_that_was_cut_off_is_refused():
    parts = [{"functionCall": {"name": "look", "args": {}}} for _ in range(2)]
    reply = {"candidates": [{"content": {"parts": parts}, "finishReason": "MAX_TOKENS"}]}
    for calls in (Gemini().calls(reply), Gemini().recorded(reply), Gemini().recorded([reply])):
        assert [call.arguments for call in calls or []] == [{}, "{"]


def test_chunks_of_gemini_are_read_one_after_the_other():
    chunks = [
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": name, "args": {}}}]}}]}
        for name in ("look", "see")
    ]
    calls = Gemini().recorded([*chunks, {"candidates": [{"finishReason": "STOP"}]}])
    assert [call.name for call in calls or []] == ["look", "see"]

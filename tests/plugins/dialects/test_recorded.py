"""Each recorded conversation is known by one provider; strange documents by none."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolstile_plugins.dialects import toolstile_dialects

DIALECTS = toolstile_dialects()

CONVERSATIONS = {
    "openai": {
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [{"id": "1", "function": {"name": "a", "arguments": "{}"}}],
            }
        ]
    },
    "anthropic": {
        "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a"}]}
        ]
    },
    "gemini": {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "a"}}]}]},
    "mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a"}},
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_read_by_the_dialect_of_its_provider_alone(name):
    readers = [each.name for each in DIALECTS if each.recorded(CONVERSATIONS[name])]
    expected = ["openai", "openai-responses"] if name == "openai" else [name]
    assert readers == expected


@pytest.mark.parametrize(
    ("document", "readers"),
    [
        (
            {"messages": [{"role": "user", "content": "Hi."}]},
            ["openai", "openai-responses", "anthropic"],
        ),
        ({"output": [{"type": "message", "content": []}]}, ["openai", "openai-responses"]),
        ({"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}, ["gemini"]),
        ([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}], ["mcp"]),
        (
            {"object": "chat.completion", "choices": [{"message": {"role": "assistant"}}]},
            ["openai", "openai-responses"],
        ),
    ],
)
def test_a_conversation_without_a_call_is_known_all_the_same(document, readers):
    assert [each.name for each in DIALECTS if each.recorded(document) == []] == readers


SAID = {"role": "user", "content": "Hi.", "parts": [{"text": "Hi."}]}


def chat(call_id):
    call = {"id": call_id, "type": "function", "function": {"name": "a", "arguments": "{}"}}
    return {"role": "assistant", "tool_calls": [call]}


def response(call_id):
    return {"type": "function_call", "call_id": call_id, "name": "a", "arguments": "{}"}


def message(call_id):
    return {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": "a"}]}


def content(call_id):
    return {"role": "model", "parts": [{"functionCall": {"id": call_id, "name": "a"}}]}


# What the model said, and a document of what was said before and that.
WITH_REPLIES = {
    "chat": (
        chat,
        lambda said, reply: {"messages": said, "choices": [{"message": reply}]},
    ),
    "response": (response, lambda said, reply: {"input": said, "output": [reply]}),
    "anthropic": (message, lambda said, reply: {"messages": said, **reply}),
    "anthropic_content": (
        message,
        lambda said, reply: {"messages": said, "content": reply["content"]},
    ),
    "gemini": (content, lambda said, reply: {"contents": said, "candidates": [{"content": reply}]}),
}
READERS = dict(zip(WITH_REPLIES, [*DIALECTS[:3], *DIALECTS[2:4]], strict=True))


@pytest.mark.parametrize("name", WITH_REPLIES)
@pytest.mark.parametrize(
    ("before", "ids"),
    [([], ["2"]), (["1"], ["1", "2"]), (["1", "2"], ["1", "2"]), (["2", "1"], ["2", "1"])],
)
def test_a_reply_beside_a_conversation_is_read_once(name, before, ids):
    said_by_the_model, document = WITH_REPLIES[name]
    said = [SAID, *map(said_by_the_model, before)]
    calls = READERS[name].recorded(document(said, said_by_the_model("2")))
    assert [call.wire_id for call in calls or []] == ids


@pytest.mark.parametrize(("after", "count"), [([], 1), ([SAID], 2)])
def test_a_reply_without_ids_is_read_once_where_it_is_the_last_of_the_conversation(after, count):
    reply = {"role": "model", "parts": [{"functionCall": {"name": "a"}}]}
    document = {"contents": [SAID, reply, *after], "candidates": [{"content": reply}]}
    assert len(READERS["gemini"].recorded(document) or []) == count


def test_what_is_no_conversation_is_known_by_none(subtests):
    for document in [
        None,
        7,
        "text",
        [],
        {},
        [[]],
        {"messages": []},
        {"messages": [{"role": "user"}, 1]},
        {"id": "1", "name": "search", "arguments": {}},
        [{"id": "1", "name": "search", "arguments": {}}],
        {"contents": [{"parts": "x"}]},
    ]:
        with subtests.test(document=document):
            assert [each.name for each in DIALECTS if each.recorded(document) is not None] == []


KEYS = st.sampled_from(
    [
        *("arguments", "args", "call_id", "candidates", "choices", "content", "contents"),
        *("function", "functionCall", "function_call", "id", "input", "jsonrpc", "message"),
        *("messages", "method", "name", "output", "params", "parts", "role", "tool_calls"),
        *("type", "_meta"),
    ]
)
LEAVES = st.sampled_from(
    [None, True, 0, 1.5, "", "x", "assistant", "tool_use", "function_call", "tools/call"]
)
STRANGE = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


@pytest.mark.slow
@given(STRANGE)
def test_strange_documents_are_refused_or_read_but_raise_nothing(document):
    for dialect in DIALECTS:
        found = dialect.recorded(document)
        assert found is None or all(isinstance(call.name, str) for call in found)
        dialect.calls(document)


@pytest.mark.slow
def test_a_document_too_deep_to_write_again_is_read():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    document = {"content": [{"type": "tool_use", "id": "1", "name": "a", "input": deep}]}
    assert DIALECTS[2].calls(document)[0].arguments == "[]"
    while deep:
        deep = deep.pop()  # type: ignore[assignment]


def test_the_names_are_those_an_application_asks_for():
    names = [each.name for each in DIALECTS]
    assert names == ["openai", "openai-responses", "anthropic", "gemini", "mcp"]

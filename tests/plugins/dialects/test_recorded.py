"""Each recorded conversation is known by one provider; strange documents by none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard_plugins.dialects import toolyard_dialects

DIALECTS = toolyard_dialects()

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
    ],
)
def test_a_conversation_without_a_call_is_known_all_the_same(document, readers):
    assert [each.name for each in DIALECTS if each.recorded(document) == []] == readers


@pytest.mark.parametrize(
    "document",
    [
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
    ],
)
def test_what_is_no_conversation_is_known_by_none(document):
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

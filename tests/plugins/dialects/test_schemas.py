"""Every provider's model sees a tool's examples."""

from __future__ import annotations

import json

import pytest

from toolstile import Host
from toolstile_hookspecs import ToolExample

PROVIDERS = ["anthropic", "openai", "openai-responses", "gemini", "mcp"]


@pytest.fixture(scope="module")
def host():
    with Host(discover=["dialects"]) as made:
        yield made


@pytest.mark.parametrize("provider", PROVIDERS)
def test_examples_reach_every_model(host, search, provider):
    shown = host.dialect(provider).schemas([search])
    # In a field of their own, or within the description.
    compact = json.dumps(shown, separators=(",", ":")).replace("\\", "")
    assert '{"query":"whale","limit":3}' in compact


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_model_reads_what_an_example_is_for_and_what_comes_out(host, make_tool, provider):
    made = make_tool(dict[str, int], str, examples=(ToolExample("One of them", {"a": 1}, "x"),))
    text = json.dumps(host.dialect(provider).schemas([made])).replace("\\", "")
    assert '- One of them: {"a":1} -> "x"' in text


def test_there_is_a_dialect_for_each(host):
    assert sorted(host.dialects()) == sorted(PROVIDERS)


@pytest.mark.parametrize("provider", ["openai", "gemini", "mcp"])
def test_a_description_with_examples_stays_within_what_providers_take(host, make_tool, provider):
    examples = tuple(ToolExample(f"Number {n}", {"a": n}, None) for n in range(200))
    made = make_tool(dict[str, int], None, examples=examples)
    (shown,) = host.dialect(provider).schemas([made])
    text = json.dumps(shown)
    assert "Number 10: " in text
    assert "Number 199" not in text


@pytest.mark.parametrize("provider", ["openai", "gemini", "mcp"])
def test_an_output_for_which_there_is_no_room_is_left_out(host, make_tool, provider):
    examples = (ToolExample("Long", {"a": 1}, "x" * 1_024), ToolExample("Short", {"a": 2}, "y"))
    made = make_tool(dict[str, int], str, examples=examples)
    text = json.dumps(host.dialect(provider).schemas([made])).replace("\\", "")
    assert '- Long: {"a":1}n- Short: {"a":2} -> "y"' in text

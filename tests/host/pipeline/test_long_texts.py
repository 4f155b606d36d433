"""A model is given texts up to a bound: longer ones without their middle, and no half of a JSON."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import Settings
from toolstile_hookspecs import (
    Contents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    StateError,
    Status,
    TextContent,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    ToolValidationError,
    hookimpl,
    tool,
)
from toolstile_plugins.dialects.mcp import Mcp

MOST = 2_000
LONG = "begin" + "x" * 1_000_000 + "end"
SETTINGS = {"host_options": {"settings": Settings(max_text=MOST)}}


@dataclass(frozen=True)
class Report:
    text: str

    def render(self) -> str:
        return self.text


@dataclass(frozen=True)
class Row:
    id: int


ROWS = [Row(number) for number in range(1_000)]


def _raise(error: Exception) -> Any:
    raise error


GIVEN = {
    "a text": lambda: LONG,
    "a message": lambda: ToolResult.ok(message=LONG),
    "a message and a text": lambda: ToolResult.ok("x", message=LONG),
    "a value that renders itself": lambda: Report(LONG),
    "contents": lambda: Contents((TextContent(LONG),)),
    "a failure": lambda: ToolResult.error(LONG),
    "a tool error": lambda: _raise(ToolError(LONG)),
    "a validation error": lambda: _raise(ToolValidationError(LONG)),
    "an exception": lambda: _raise(ValueError(LONG)),
    "a type error": lambda: _raise(TypeError(LONG)),
    "a group": lambda: _raise(ExceptionGroup("begin", [ValueError(LONG)] * 3)),
    "an excluded value": lambda: ToolResult.ok(ROWS, message=LONG, exclude_value_from_context=True),
}
STRUCTURED = {
    "rows": lambda: ROWS,
    "lines": lambda: [f"line {number}" for number in range(200_000)],
    "lines in a tuple with a message": lambda: ToolResult.ok(("x" * 100,) * 100, message="Done."),
    "a set of texts": lambda: {f"{number}" for number in range(1_000)},
    "lines of values that render themselves": lambda: [Report("x" * 100)] * 100,
    "one long text in a list": lambda: [LONG],
    "an object": lambda: {"rows": list(range(1_000))},
    "an object with a message": lambda: ToolResult.ok({"rows": [*range(1_000)]}, message="Done."),
    "a number": lambda: 10**MOST,
    "structured contents": lambda: Contents((TextContent("short"),), {"rows": [*range(1_000)]}),
}


def giving(kinds: dict[str, Any], **options: Any) -> Any:
    @tool(name="give", **options)
    def give(kind: str) -> ToolResult[Any]:
        """Give."""
        given = kinds[kind]()
        return given if isinstance(given, ToolResult) else ToolResult.ok(given)

    return give


def test_a_long_text_is_cut_in_its_middle(yard: Any, subtests: pytest.Subtests) -> None:
    yard.open(giving(GIVEN), **SETTINGS)
    for kind in GIVEN:
        with subtests.test(kind=kind):
            outcome = yard.call("give", kind=kind)
            assert len(outcome.text) <= MOST
            assert "begin" in outcome.text[:100]
            assert "cut here: of 1" in outcome.text
            assert "end" in outcome.text[-100:]
            assert outcome.event.text == outcome.text


def test_a_long_structured_value_fails_its_call(yard: Any, subtests: pytest.Subtests) -> None:
    for category in ["read", "side_effect"]:
        for kind in STRUCTURED:
            with subtests.test(category=category, kind=kind):
                yard.open(giving(STRUCTURED, category=category), **SETTINGS)
                outcome = yard.call("give", kind=kind)
                assert outcome.status is Status.ERROR
                assert "ran, but its value takes " in outcome.text
                assert "and a model is given 2,000 at most. Ask for less, " in outcome.text
                assert ("whether its effect happened" in outcome.text) is (
                    category == "side_effect"
                )
                assert "[" not in outcome.text
                assert outcome.data is None


@pytest.mark.parametrize("kind", [*GIVEN, *STRUCTURED])
def test_another_tool_is_given_all_of_it(yard: Any, kind: str) -> None:
    seen: list[Any] = []

    @tool
    def outer(*, context: ToolContext) -> int:
        """Call within."""
        outcome = context.call("give", {"kind": kind})
        seen.append(outcome)
        return 1

    yard.open(giving(GIVEN | STRUCTURED), outer, **SETTINGS)
    assert yard.call("outer").success
    if seen[0].success:
        assert "cut here" not in seen[0].text
        assert len(seen[0].text) > MOST or kind == "structured contents"


def test_the_parts_of_contents_share_the_bound(yard: Any) -> None:
    """Dialects pass on the parts."""
    parts = (
        TextContent("a" * 500),
        ImageContent("AAAA", "image/png"),
        EmbeddedResource("x:/", "b" * 5_000),
        ResourceLink("x:/c", "c"),
        TextContent("d" * 5_000),
    )
    yard.open(giving({"parts": lambda: Contents(parts)}), **SETTINGS)
    outcome = yard.call("give", kind="parts")
    value = outcome.result.value
    assert value.render() == outcome.text
    assert len(outcome.text) <= MOST
    assert value.parts[:2] == parts[:2]
    assert value.parts[3] == parts[3]
    texts = [value.parts[2].text, value.parts[4].text]
    assert all("cut here: of 5,000 characters" in text for text in texts)
    assert [json.loads(outcome.data)["parts"][at]["text"] for at in (2, 4)] == texts


def test_clients_of_mcp_are_given_no_more(yard: Any) -> None:
    @tool
    def read() -> str:
        """Read."""
        return LONG

    yard.open(read, **SETTINGS)
    (result,) = Mcp().results([yard.call("read")])
    assert len(json.dumps(result)) < 3 * MOST
    assert result["structuredContent"] == {"result": result["content"][0]["text"]}


def test_a_denial_and_a_rendering_of_a_plugin_have_the_same_bound(yard: Any) -> None:
    class Renders:
        @hookimpl
        def toolstile_render(self, result: ToolResult[Any]) -> str:
            return f"begin{result.value}" + "y" * MOST

    yard.open(giving({"short": lambda: "short"}), plugins=(Renders(),), **SETTINGS)
    outcome = yard.call("give", kind="short")
    assert outcome.text.startswith("beginshort")
    assert len(outcome.text) == MOST


def test_the_default_is_a_hundred_thousand_characters(yard: Any) -> None:
    kinds = {"fits": lambda: "x" * 100_000, "does not": lambda: "x" * 100_001}
    yard.open(giving(kinds))
    assert yard.call("give", kind="fits").text == "x" * 100_000
    assert len(yard.call("give", kind="does not").text) == 100_000


@pytest.mark.parametrize("how", ["returned", "raised", "told"])
def test_control_characters_are_shown_escaped(yard: Any, how: str) -> None:
    odd = "a\x00b\x1b[31m\x7f\x9b\tc\r\nd é \u2028"

    @tool
    def give() -> ToolResult[str]:
        """Give."""
        if how == "raised":
            raise ToolError(odd)
        return ToolResult.ok(odd) if how == "returned" else ToolResult.ok(message=odd)

    yard.open(give)
    expected = "a\\x00b\\x1b[31m\\x7f\\x9b\tc\r\nd é \u2028"
    assert yard.call("give").text == expected


@pytest.mark.parametrize("text", ["a", "a ", "\n", "/a", " /", "`", "toolstile ", "`toolstile x` "])
def test_a_long_error_of_the_host_takes_little_time(yard: Any, text: str) -> None:
    yard.open(giving({"error": lambda: _raise(StateError(f"begin {text * 6_000}"))}))
    began = time.perf_counter()
    outcome = yard.call("give", kind="error")
    assert time.perf_counter() - began < 0.5
    assert outcome.status is Status.ERROR


def test_calls_of_a_batch_have_a_bound_each(yard: Any) -> None:
    yard.open(giving(GIVEN), **SETTINGS)
    outcomes = yard.dispatch_all([ToolCall("give", {"kind": kind}) for kind in GIVEN])
    assert all(len(outcome.text) <= MOST for outcome in outcomes)

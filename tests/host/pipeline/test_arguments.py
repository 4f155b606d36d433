"""Arguments that do not fit, as a model may send them: one message, nothing run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from toolyard_hookspecs import Stage, Status, ToolCall, ToolContext, ToolResult, tool


def place(city: str, floors: int, height: float, *, tags: list[str] | None = None) -> str:
    """Note a place."""
    return f"{city} {floors} {height} {tags}"


TYPED: dict[str, tuple[str, list[str]]] = {
    "missing": ("{}", ["city: required", "floors: required", "height: required"]),
    "surplus": (
        '{"city": "a", "floors": 1, "height": 1, "hight": 2, "x": 3}',
        ["hight: not known; did you mean 'height'?", "x: not known"],
    ),
    "wrongly typed": (
        '{"city": 1, "floors": "10", "height": true, "tags": "a"}',
        ["city: ", "floors: ", 'got "10"', "height: ", "got true", "tags: "],
    ),
    "true for an int": ('{"city": "a", "floors": true, "height": 1}', ["floors: ", "got true"]),
    "a nested fault": ('{"city": "a", "floors": 1, "height": 1, "tags": [1]}', ["tags[0]"]),
    "several kinds at once": (
        '{"floors": "x", "extra": 1}',
        ["city: required", "floors: ", "height: required", "extra: not known"],
    ),
}
MALFORMED: dict[str, tuple[str | bytes, str]] = {
    "not JSON": ("{city: a}", "not valid JSON"),
    "cut off": ('{"city": "a"', "not valid JSON"),
    "empty": ("", "not valid JSON"),
    "an array": ("[1, 2]", "object"),
    "a string": ('"city"', "object"),
    "null": ("null", "object"),
    "nested deeply": ("[" * 10_000 + "]" * 10_000, "not valid JSON"),
    "objects nested deeply": ('{"a":' * 10_000 + "1" + "}" * 10_000, "not valid JSON"),
    "a name twice": (
        '{"city": "a", "city": "b", "floors": 1, "height": 1}',
        "'city' is given twice",
    ),
    "NaN": ('{"city": "a", "floors": 1, "height": NaN}', "NaN"),
    "Infinity": ('{"city": "a", "floors": 1, "height": -Infinity}', "Infinity"),
    "out of range": ('{"city": "a", "floors": 1, "height": 1e999}', "1e999"),
    "a lone surrogate, escaped": (
        '{"city": "\\ud800", "floors": 1, "height": 1}',
        "not valid JSON",
    ),
    "a lone surrogate": ('{"city": "\ud800", "floors": 1, "height": 1}', "not valid JSON"),
    "bytes that are no UTF-8": (b'{"city": "\xff"}', "not valid JSON"),
}


@pytest.mark.parametrize("case", TYPED)
def test_all_faults_are_named_in_one_message(yard: Any, case: str) -> None:
    text, faults = TYPED[case]
    yard.open(tool(place))
    outcome = yard.dispatch(ToolCall("place", text))

    assert (outcome.status, outcome.stage) == (Status.INVALID, Stage.PARSE)
    for fault in faults:
        assert fault in outcome.text
    assert "then retry" in outcome.text
    (event,) = yard.events
    assert event.params is None
    assert not event.rolled_back
    assert event.handler_duration is None


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_not_strict_json_is_refused(yard: Any, case: str) -> None:
    text, told = MALFORMED[case]
    yard.open(tool(place))
    outcome = yard.dispatch(ToolCall("place", text))

    assert (outcome.status, outcome.stage) == (Status.INVALID, Stage.PARSE)
    assert told in outcome.text
    assert len(outcome.text) < 1_000
    assert len(yard.events) == 1


def test_ten_megabytes_are_taken_where_they_fit(yard: Any) -> None:
    @tool
    def measure(text: str) -> int:
        """Measure a text."""
        return len(text)

    size = 10 * 1024 * 1024
    yard.open(measure)
    assert yard.call("measure", text="x" * size).result.value == size


def test_ten_megabytes_that_do_not_fit_are_refused_in_few_words(yard: Any) -> None:
    yard.open(tool(place))
    text = json.dumps({"city": 1, "x" * 10_000_000: 2, "floors": "y" * 100_000})
    outcome = yard.dispatch(ToolCall("place", text))

    assert outcome.status is Status.INVALID
    assert len(outcome.text) < 2_000


def test_more_than_the_configured_size_is_refused_unread(yard: Any) -> None:
    from toolyard import Settings

    yard.open(tool(place), host_options={"settings": Settings(max_arguments=100)})
    outcome = yard.dispatch(ToolCall("place", '{"city": "' + "x" * 200 + '"}'))

    assert outcome.status is Status.INVALID
    assert "100 are allowed" in outcome.text


@pytest.mark.parametrize("is_async", [False, True])
def test_a_nested_call_with_bad_arguments_is_told_to_its_caller(
    yard: Any, nesting: Any, is_async: bool
) -> None:
    told: list[Any] = []
    yard.open(tool(place), nesting("place", told, is_async=is_async, city=1, floors=1, height=1))

    assert yard.call("outer").success
    assert told[0].status is Status.INVALID
    assert yard.marks == ["outer"]


@dataclass
class Basket:
    """An item that can be changed in place."""

    fruits: list[str]


@pytest.mark.parametrize("fails", [False, True])
def test_changing_an_item_of_a_slice_in_place_leaks_nowhere(yard: Any, fails: bool) -> None:
    @tool
    def tamper(*, context: ToolContext) -> ToolResult[None]:
        """Change what was read."""
        basket = context.session[Basket].latest()
        assert basket is not None
        basket.fruits.append("worm")
        for each in context.session[Basket].all():
            each.fruits.append("worm")
        return ToolResult.error("no") if fails else ToolResult.ok()

    yard.session[Basket].append(Basket(["apple"]))
    yard.open(tamper)
    outcome = yard.call("tamper")

    assert outcome.success is not fails
    assert yard.session[Basket].latest() == Basket(["apple"])


def test_changing_what_was_stored_leaks_nowhere(yard: Any) -> None:
    kept = Basket(["apple"])

    @tool
    def store(*, context: ToolContext) -> ToolResult[None]:
        """Store something, then change it."""
        context.session[Basket].append(kept)
        kept.fruits.append("worm")
        return ToolResult.ok()

    yard.open(store)
    yard.call("store")

    assert yard.session[Basket].latest() == Basket(["apple"])

"""Arguments that do not fit, as a model may send them: one message, nothing run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile_hookspecs import (
    Outcome,
    Stage,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)


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
    "nested deeply": ("[" * 10_000 + "]" * 10_000, "nested too deeply"),
    "objects nested deeply": ('{"a":' * 10_000 + "1" + "}" * 10_000, "nested too deeply"),
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


@pytest.mark.slow
@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_not_strict_json_is_refused(yard: Any, case: str) -> None:
    text, told = MALFORMED[case]
    yard.open(tool(place))
    outcome = yard.dispatch(ToolCall("place", text))

    assert (outcome.status, outcome.stage) == (Status.INVALID, Stage.PARSE)
    assert told in outcome.text
    assert len(outcome.text) < 1_000
    assert len(yard.events) == 1


def nested_deeply() -> dict[str, Any]:
    top: dict[str, Any] = {}
    inner = top
    for _ in range(10_000):
        inner["a"] = inner = {}
    return top


def within_itself() -> dict[str, Any]:
    top: dict[str, Any] = {}
    top["a"] = top
    return top


READ: dict[str, tuple[Any, str]] = {
    "NaN": ({"city": "a", "floors": 1, "height": float("nan")}, "NaN or Infinity"),
    "a lone surrogate": ({"city": "\ud800", "floors": 1, "height": 1}, "not valid JSON"),
    "no JSON": (
        {"city": object(), "floors": 1, "height": 1},
        "it holds a value of type object",
    ),
    "nested deeply": (nested_deeply(), "nested too deeply"),
    "within itself": (within_itself(), "it holds itself"),
    "too many digits": ({"city": "a", "floors": 10**5000, "height": 1}, "number out of range"),
    "a number": (3, "arguments: input should be an object, got 3"),
    "nothing": (None, "arguments: input should be an object, got null"),
    "an array": ([1], "arguments: input should be an object, got an array"),
    "pairs": ([("city", "a"), ("floors", 1)], "arguments: input should be an object"),
    "a set": ({"city"}, "arguments: input should be an object, got an array"),
}


@pytest.mark.parametrize("case", READ)
def test_what_was_read_already_is_held_to_the_same(yard: Any, case: str) -> None:
    arguments, told = READ[case]
    yard.open(tool(place))
    outcome = yard.dispatch(ToolCall("place", arguments))

    assert (outcome.status, outcome.stage) == (Status.INVALID, Stage.PARSE)
    assert told in outcome.text
    assert "then retry" in outcome.text
    assert len(yard.events) == 1


@tool
def keep(thing: Any) -> str:
    """Keep anything."""
    return repr(thing)


def test_where_anything_fits_it_has_to_be_strict_json_too(
    yard: Any, subtests: pytest.Subtests
) -> None:
    yard.open(keep)
    for thing, told in [
        ('{"a": {"b": 1, "b": 2}}', "'b' is given twice"),
        ('[{"b": 1, "\\u0062": 2}]', "'b' is given twice"),
        ("[NaN]", "NaN"),
        ("[1e999]", "1e999"),
        ('["\\udc00"]', "not valid JSON"),
        ('{"\\ud800": 1}', "not valid JSON"),
        ("[" * 10_000 + "]" * 10_000, "not valid JSON"),
        ("9" * 5000, "not valid JSON"),
    ]:
        with subtests.test(thing=thing, told=told):
            outcome = yard.dispatch(ToolCall("keep", f'{{"thing": {thing}}}'))

            assert (outcome.status, outcome.stage) == (Status.INVALID, Stage.PARSE)
            assert told in outcome.text


@pytest.mark.slow
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
    from toolstile import Settings

    yard.open(tool(place), host_options={"settings": Settings(max_arguments=100)})
    outcome = yard.dispatch(ToolCall("place", '{"city": "' + "x" * 200 + '"}'))

    assert outcome.status is Status.INVALID
    assert "100 are allowed" in outcome.text


def calling(text: Any, told: list[Outcome], touch: Any, *, is_async: bool) -> Tool[Any, Any]:
    @tool(name="outer")
    def outer(*, context: ToolContext) -> None:
        """Call another tool with what a model may send."""
        touch(context)
        told.append(context.call("place", text))

    @tool(name="outer")
    async def aouter(*, context: ToolContext) -> None:
        """Call another tool with what a model may send."""
        touch(context)
        told.append(await context.acall("place", text))

    return aouter if is_async else outer


HUGE = json.dumps({"city": 1, "x" * 10_000_000: 2})
NESTED = {
    **TYPED,
    **{name: (text, [part]) for name, (text, part) in MALFORMED.items()},
    "huge": (HUGE, ["xxx"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("case", NESTED)
def test_a_nested_call_with_such_arguments_is_told_to_its_caller(
    yard: Any, touch: Any, case: str, is_async: bool
) -> None:
    text, faults = NESTED[case]
    told: list[Outcome] = []
    yard.open(tool(place), calling(text, told, touch, is_async=is_async))

    assert yard.call("outer").success
    (outcome,) = told
    assert (outcome.status, outcome.stage) == (Status.INVALID, Stage.PARSE)
    for fault in faults:
        assert fault in outcome.text
    assert len(outcome.text) < 2_000
    assert yard.marks == yard.box.items == ["x"]
    inner, outer = yard.events
    assert (inner.status, inner.parent_id) == (Status.INVALID, outer.call_id)
    assert inner.handler_duration is None
    assert not inner.rolled_back


@dataclass
class Basket:
    """An item that can be changed in place."""

    fruits: list[str]


def spoil(context: ToolContext) -> None:
    basket = context.session[Basket].latest()
    assert basket is not None
    basket.fruits.append("worm")
    for each in context.session[Basket].all():
        each.fruits.append("worm")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("within", [False, True])
def test_changing_an_item_of_a_slice_in_place_leaks_nowhere(
    yard: Any, fails: bool, within: bool
) -> None:
    seen: list[Basket] = []

    @tool
    def tamper(*, context: ToolContext) -> ToolResult[None]:
        """Change what was read."""
        spoil(context)
        return ToolResult.error("no") if fails else ToolResult.ok()

    @tool
    def outer(*, context: ToolContext) -> None:
        """Store another, change it as well, and let a nested call do so."""
        context.session[Basket].append(Basket(["pear"]))
        context.call("tamper")
        seen.extend(context.session[Basket].all())

    yard.session[Basket].append(Basket(["apple"]))
    yard.open(tamper, outer)
    outcome = yard.call("outer" if within else "tamper")

    assert outcome.success is (within or not fails)
    kept = [Basket(["apple"]), *([Basket(["pear"])] * within)]
    assert list(yard.session[Basket].all()) == kept
    assert seen == kept * within


@pytest.mark.parametrize("fails", [False, True])
def test_changing_an_item_in_place_before_a_nested_call_does_not_reach_it(
    yard: Any, fails: bool
) -> None:
    seen: list[Basket] = []

    @tool
    def look(*, context: ToolContext) -> None:
        """See what there is."""
        seen.extend(context.session[Basket].all())

    @tool
    def outer(*, context: ToolContext) -> ToolResult[None]:
        """Change what was read, then call another."""
        spoil(context)
        context.call("look")
        return ToolResult.error("no") if fails else ToolResult.ok()

    yard.session[Basket].append(Basket(["apple"]))
    yard.open(look, outer)
    yard.call("outer")

    assert seen == list(yard.session[Basket].all()) == [Basket(["apple"])]


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

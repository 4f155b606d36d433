"""Signatures that are made of schemas."""

import pytest
from tests.plugins.code.suite import run, running

from toolstile_hookspecs import Tool, ToolResult
from toolstile_plugins.code import CodeConfig
from toolstile_plugins.code.functions import declarations, described, functions_of


def made(name="f", params=None, result=None):
    schema = {"type": "object", "properties": params or {}, "required": list(params or {})}
    return Tool(
        name=name,
        description="A tool.",
        handler=lambda params, *, context: ToolResult.ok(None),
        category="read",
        params_schema=schema,
        result_schema=result or {"type": "string"},
    )


def types_of(result):
    (function,) = functions_of([made(result=result)]).values()
    return function.signature.partition(" -> ")[2].removesuffix(": ..."), function.types


ITEM = {"type": "object", "title": "Item", "properties": {"n": {"type": "integer"}}}
TREE = {
    "$defs": {
        "Node": {
            "type": "object",
            "title": "Node",
            "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "required": ["below"],
        }
    },
    "$ref": "#/$defs/Node",
}


def test_a_result_has_the_type_of_its_schema(subtests):
    for schema, type_ in [
        ({"type": "integer"}, "int"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"anyOf": [{"type": "number"}, {"type": "number"}]}, "float"),
        ({"anyOf": [{"type": "number"}, {}]}, "Any"),
        ({"enum": ["a", 1]}, "Literal['a', 1]"),
        ({"const": "a", "type": "string"}, "Literal['a']"),
        ({"enum": [1.5], "type": "number"}, "float"),
        ({"type": "array", "items": {"type": "boolean"}}, "list[bool]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "properties": {"a-b": {}}}, "dict[str, Any]"),
        ({"allOf": [{}]}, "Any"),
    ]:
        with subtests.test(schema=schema, type_=type_):
            assert types_of(schema) == (type_, ())


def test_an_object_is_declared_once_with_what_may_be_missing():
    pair = {"type": "object", "title": "a pair", "properties": {"one": ITEM, "two": ITEM}}
    assert types_of({**pair, "required": ["one"]}) == (
        "Apair",
        (
            "class Item(TypedDict):\n    n: NotRequired[int]",
            "class Apair(TypedDict):\n    one: Item\n    two: NotRequired[Item]",
        ),
    )


def test_a_type_that_holds_itself_ends():
    assert types_of(TREE) == ("Node", ("class Node(TypedDict):\n    below: list[Any]",))


@pytest.mark.parametrize("title", ["int", "Any", "TypedDict", "class", "offer", "1", "é", ""])
def test_titles_are_no_names_that_mean_something_else(title):
    tools = [made("offer", result={**ITEM, "title": title}), made("g", result=ITEM)]
    with running(tools, config=CodeConfig()) as executor:
        assert run(executor, "[1, offer, g] and 1").result.value.value == 1


def test_two_types_of_one_title_are_two():
    other = {**ITEM, "properties": {"m": {"type": "string"}}}
    functions = functions_of(
        [made("f", result=ITEM), made("g", result=other), made("h", result=ITEM)]
    )
    assert [each.signature.partition(" -> ")[2] for each in functions.values()] == [
        "Item: ...",
        "Item2: ...",
        "Item: ...",
    ]
    assert declarations(functions.values()).count("class Item") == 2


def test_arguments_take_whatever_may_fit():
    params = {
        "way": {"enum": ["a", "b"], "type": "string"},
        "items": {"type": "array", "items": ITEM},
        "options": ITEM,
        "from": {"type": "string"},
    }
    (function,) = functions_of([made(params=params)]).values()
    assert function.signature == (
        "def f(way: str, items: Sequence[Mapping[str, Any]], options: Mapping[str, Any], "
        "**more: Any) -> str: ..."
    )


def test_signatures_that_are_too_many_are_named():
    functions = functions_of([made("first"), made("second"), made("third")])
    assert described(functions.values(), 45) == (
        "```python\ndef first() -> str: ...\n```\n\n"
        "Further functions, by the arguments of their tools: second, third."
    )
    assert described([], 45) == "There are no functions here."

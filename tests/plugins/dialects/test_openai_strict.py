"""Strict mode is asked for only with schemas that keep its rules."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field as dataclass_field
from typing import Any, Literal

import pytest
from hypothesis import given

from toolstile_hookspecs.codecs import Codec
from toolstile_plugins.dialects.json_schema import walk
from toolstile_plugins.dialects.openai_strict import strict_schema

ALLOWED = {
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "type",
}


def assert_strict(schema: dict[str, Any]) -> None:
    assert schema["type"] == "object"
    assert "anyOf" not in schema
    for each in walk(schema):
        assert each.keys() <= ALLOWED
        assert {"type", "anyOf", "$ref"} & each.keys()
        if "$ref" in each:
            assert each.keys() == {"$ref"}
        kinds = each.get("type", [])
        if "object" in ([kinds] if isinstance(kinds, str) else kinds):
            assert each["additionalProperties"] is False
            assert each["required"] == list(each["properties"])
        if "array" in ([kinds] if isinstance(kinds, str) else kinds):
            assert isinstance(each["items"], dict)


def complete(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """Tell whether a value leaves nothing out that the strict schema requires."""
    if "$ref" in schema:
        return complete(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], value, root)
    variants = schema.get("anyOf", [schema])
    if isinstance(value, list):
        return all(any(complete(v.get("items", v), e, root) for v in variants) for e in value)
    if isinstance(value, dict):
        resolved = [root["$defs"][v["$ref"][8:]] if "$ref" in v else v for v in variants]
        return any(
            all(n in value and complete(s, value[n], root) for n, s in v["properties"].items())
            for v in resolved
            if "properties" in v
        )
    return True


def schema_of(kind: Any) -> dict[str, Any]:
    return Codec(kind, owner="a test").schema()


@pytest.mark.slow
def test_random_types_are_strict_by_the_rules_or_not_at_all(
    schemas_and_values, plain_schemas_and_values, fits
):
    @given(schemas_and_values | plain_schemas_and_values)
    def check(drawn):
        schema, value = drawn
        before = copy.deepcopy(schema)
        strict = strict_schema(schema)
        assert schema == before
        if strict is not None:
            assert_strict(strict)
            if complete(strict, value, strict):
                assert fits(strict, value)

    check()


@dataclass
class Search:
    query: str
    limit: int = 10
    """The number."""
    order: Literal["new", "old"] | None = None


def test_an_optional_property_with_a_known_default_is_required_and_says_its_default():
    strict = strict_schema(schema_of(Search))
    assert strict is not None
    assert strict["required"] == ["query", "limit", "order"]
    assert strict["properties"]["limit"]["description"] == "The number. Default: 10."
    assert strict["properties"]["order"]["description"] == "Default: null."
    assert_strict(strict)
    given_all = Codec(Search, owner="a test").decode('{"query":"x","limit":10,"order":null}')
    assert given_all == Search("x")


@dataclass
class Tagged:
    tags: list[str] = dataclass_field(default_factory=list)


@dataclass
class Unsound:
    count: int = None  # type: ignore[assignment]


@dataclass
class Free:
    labels: dict[str, str]


@dataclass
class Anything:
    value: Any


@dataclass
class Pair:
    pair: tuple[int, str]


@pytest.mark.parametrize("kind", [Tagged, Unsound, Free, Anything, Pair])
def test_what_strict_mode_cannot_say_is_not_strict(kind):
    assert strict_schema(schema_of(kind)) is None


@dataclass
class Node:
    name: str
    children: list[Node]


def test_a_recursive_type_keeps_its_references():
    strict = strict_schema(schema_of(Node))
    assert strict is not None
    assert strict["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert_strict(strict)


def objects(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def test_a_described_reference_is_wrapped_as_references_stand_alone():
    schema = objects(a={"$ref": "#/$defs/A", "description": "An A."})
    schema["$defs"] = {"A": objects(x={"type": "string"})}
    strict = strict_schema(schema)
    assert strict is not None
    assert strict["properties"]["a"] == {
        "anyOf": [{"$ref": "#/$defs/A"}],
        "description": "An A.",
    }


def test_keywords_that_only_narrow_are_left_to_parsing():
    text = {
        "type": "string",
        "title": "T",
        "minLength": 1,
        "format": "uri",
        "pattern": "^(?!x)",
        "examples": ["a"],
    }
    strict = strict_schema(objects(a=text, n={"type": "number", "minimum": 1}))
    assert strict is not None
    assert strict["properties"] == {
        "a": {"type": "string"},
        "n": {"type": "number", "minimum": 1},
    }


def test_one_of_becomes_any_of_and_a_single_all_of_is_joined():
    schema = objects(
        a={"oneOf": [{"type": "string"}, {"type": "null"}]},
        b={"allOf": [{"type": "integer"}], "description": "B."},
    )
    strict = strict_schema(schema)
    assert strict is not None
    assert strict["properties"] == {
        "a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "b": {"type": "integer", "description": "B."},
    }


def test_values_without_a_type_get_theirs():
    strict = strict_schema(objects(a={"enum": [1, "x", None]}, b={"const": True}))
    assert strict is not None
    assert strict["properties"]["a"]["type"] == ["integer", "null", "string"]
    assert strict["properties"]["b"]["type"] == "boolean"


def test_variants_that_begin_alike_are_not_strict_unless_a_constant_tells_them_apart():
    def variants(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
        return objects(v={"anyOf": [objects(kind=first), objects(kind=second)]})

    text = {"type": "string"}
    assert strict_schema(variants(text, {"type": "integer"})) is None
    assert strict_schema(variants({"const": "a"}, {"const": "b"})) is not None


def test_an_object_that_names_its_properties_is_closed():
    strict = strict_schema({"type": "object", "properties": {}})
    assert strict == objects()


def nested(depth: int) -> dict[str, Any]:
    return objects(a=nested(depth - 1)) if depth > 1 else objects(a={"type": "string"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema",
    [
        nested(11),
        objects(**{f"p{i}": {"type": "string"} for i in range(5_001)}),
        objects(a={"type": "string", "enum": [str(i) for i in range(1_001)]}),
        objects(a={"type": "string", "const": "x" * 120_000}),
    ],
    ids=["depth", "properties", "values", "text"],
)
def test_what_exceeds_the_limits_is_not_strict(schema):
    assert strict_schema(schema) is None


@pytest.mark.parametrize(("count", "is_strict"), [(251, False), (250, True)])
def test_an_enum_of_many_values_may_not_be_long(count, is_strict):
    values = [f"{number:064}" for number in range(count)]
    assert (strict_schema(objects(a={"enum": values})) is not None) is is_strict


def test_what_is_at_the_limit_of_depth_is_strict():
    assert strict_schema(nested(10)) is not None


def test_odd_schemas_are_not_strict_and_raise_nothing(subtests):
    for property_schema in [
        True,
        {},
        {"type": "array"},
        {"type": "object"},
        {"type": "thing"},
        {"allOf": [{"type": "string"}, {"minLength": 1}]},
        {"$ref": "#/$defs/Missing"},
        {"$ref": "http://example.com/x"},
        {"enum": []},
        {"const": [1]},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
        {"type": "object", "patternProperties": {"a": {}}, "additionalProperties": False},
    ]:
        with subtests.test(property_schema=property_schema):
            assert strict_schema(objects(a=property_schema)) is None

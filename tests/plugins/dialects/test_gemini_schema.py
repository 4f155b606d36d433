"""Schemas in the part of OpenAPI that Gemini takes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from toolstile_plugins.dialects.gemini import parameters
from toolstile_plugins.dialects.json_schema import walk

ALLOWED = {
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "type",
}


def assert_accepted(schema: dict[str, Any]) -> None:
    for each in walk(schema):
        assert each.keys() <= ALLOWED
        if "anyOf" in each:
            assert each.keys() == {"anyOf"}
            continue
        assert isinstance(each["type"], str)
        assert ("items" in each) == (each["type"] == "array")
        if "properties" in each:
            assert each["type"] == "object"
            assert each["properties"]
        assert set(each.get("required", ())) <= set(each.get("properties", ()))
        if "enum" in each:
            assert each["type"] == "string"
            assert all(isinstance(value, str) and value for value in each["enum"])


def property_of(schema: Any) -> dict[str, Any]:
    converted = parameters({"type": "object", "properties": {"a": schema}})
    assert converted is not None
    assert_accepted(converted)
    return converted["properties"]["a"]


@pytest.mark.slow
def test_random_types_keep_to_the_subset_and_what_fits_still_fits(schemas_and_values, fits):
    @given(schemas_and_values)
    def check(drawn):
        schema, value = drawn
        before = copy.deepcopy(schema)
        converted = parameters(schema)
        assert schema == before
        if converted is None:
            assert not schema["properties"]
        else:
            assert_accepted(converted)
            assert fits(converted, value)

    check()


@pytest.mark.parametrize(
    ("given_schema", "expected"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string", "nullable": True}),
        ({"type": ["integer", "null"]}, {"type": "integer", "nullable": True}),
        (
            {"type": ["object", "null"], "properties": {"x": {"type": "string"}}},
            {"type": "object", "properties": {"x": {"type": "string"}}, "nullable": True},
        ),
        ({"const": "x"}, {"type": "string", "format": "enum", "enum": ["x"]}),
        ({"const": True}, {"type": "boolean", "description": "Always true."}),
        ({"enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2."}),
        ({"enum": ["a", ""]}, {"type": "string", "description": 'One of: "a", "".'}),
        ({"type": "string", "format": "uuid"}, {"type": "string", "description": "Format: uuid."}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "number", "exclusiveMaximum": 1.5}, {"type": "number", "maximum": 1.5}),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "object", "description": "Its keys are free, its values of type integer."},
        ),
        (
            {"description": "Either.", "oneOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "string", "description": "Either."}, {"type": "integer"}]},
        ),
        (
            {"allOf": [{"type": "object", "properties": {"x": {"type": "string"}}}]},
            {"type": "object", "properties": {"x": {"type": "string"}}},
        ),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}], "maxItems": 1},
            {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
        ),
        ({"type": "object", "required": ["gone"]}, {"type": "object"}),
    ],
)
def test_what_the_subset_lacks_is_said_in_its_own_way(given_schema, expected):
    assert property_of(given_schema) == expected


def anything(*, within: int) -> dict[str, Any]:
    """What any value is said to be, with arrays of the same within it so often."""
    plain: list[dict[str, Any]] = [{"type": each} for each in ("number", "boolean", "object")]
    items = anything(within=within - 1) if within else {"type": "string"}
    text = {"type": "string", "nullable": True}
    return {"anyOf": [text, *plain, {"type": "array", "items": items}]}


@pytest.mark.parametrize("schema", [{}, True, {"title": "Anything"}])
def test_anything_is_spelled_out(schema):
    assert property_of(schema) == anything(within=1)


def test_so_are_the_items_of_any_array():
    assert property_of({"type": "array"}) == {"type": "array", "items": anything(within=0)}


def test_a_tool_without_params_has_no_parameters():
    assert parameters({"type": "object", "properties": {}, "additionalProperties": False}) is None

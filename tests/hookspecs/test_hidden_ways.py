"""Where a schema hides secrets in ways that masking does not go, everything is hidden."""

from __future__ import annotations

from typing import Any

import pytest

from toolstile_hookspecs import Tool, masked
from toolstile_hookspecs._schema.json_schema import ALL_SECRET
from toolstile_hookspecs._schema.schema_codec import SchemaCodec, secrecy_of

PIN = {"type": "string", "writeOnly": True}
HIDES_PIN = {"properties": {"pin": PIN}}


POINTING = {"$ref": "#/$defs/pin", "$defs": {"pin": PIN}}


def plain(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"pin": {"type": "string"}}, **more}


def test_what_only_a_validator_finds_hides_all_values(subtests):
    for schema in [
        plain(**{"if": {"required": ["pin"]}, "then": HIDES_PIN}),
        plain(**{"if": {"required": ["pan"]}, "else": HIDES_PIN}),
        plain(**{"if": HIDES_PIN}),
        plain(dependentSchemas={"pin": HIDES_PIN}),
        plain(dependencies={"pin": HIDES_PIN}),
        {"type": "object", "unevaluatedProperties": PIN},
        plain(**{"$ref": "#pin", "$defs": {"pin": {"$anchor": "pin", **HIDES_PIN}}}),
        plain(**{"$ref": "pin.json", "$defs": {"pin": {"$id": "pin.json", **HIDES_PIN}}}),
        plain(**{"$dynamicRef": "#pin", "$defs": {"pin": {"$dynamicAnchor": "pin", **HIDES_PIN}}}),
        {
            "type": "object",
            "properties": {"pin": {"$id": "pin.json", **POINTING}},
            "$defs": {"pin": {}},
        },
    ]:
        with subtests.test(schema=schema):
            codec = SchemaCodec(schema, owner="test")
            codec.decode('{"pin": "1234"}')
            assert masked({"pin": "1234"}, codec.secret_schema()) == {"pin": "***"}


@pytest.mark.parametrize(
    "items",
    [
        {"contains": PIN},
        {"unevaluatedItems": PIN},
        {"items": [PIN]},
        {"items": [{}], "additionalItems": PIN},
    ],
)
def test_so_do_items_that_it_tells_apart(items):
    assert masked(["1234", "5678"], secrecy_of({"type": "array", **items})) == ["***", "***"]


def test_of_a_value_that_may_be_no_object_nothing_is_left():
    schema = {"$ref": "#pin", "$defs": {"pin": {"$anchor": "pin", **PIN}}}
    assert masked("1234", secrecy_of(schema)) == "***"


def test_an_identifier_and_pointers_are_followed():
    schema = plain(**{"$id": "all.json"})
    schema["properties"] |= {"pan": PIN, "own": {"$ref": "#/properties/pan"}}
    assert secrecy_of(schema) == schema


def test_without_a_secret_there_is_none():
    assert secrecy_of(plain(**{"if": {}, "then": {}})) == {}


def test_a_property_is_hidden_by_a_pattern_too():
    schema = plain(patternProperties={"^p": {"writeOnly": True}})
    assert masked({"pin": "1234"}, schema) == {"pin": "***"}


def test_no_message_tells_what_was_given_to_such_a_tool():
    hides_long = {"properties": {"pin": {**PIN, "maxLength": 4}}}
    tool: Tool[Any, Any] = Tool(
        name="enter",
        description="Go in.",
        handler=lambda params, *, context: params,
        params_schema=plain(dependentSchemas={"pin": hides_long}),
    )
    assert tool.params_codec.secret_schema() == ALL_SECRET
    assert "hunter2" not in str(tool.params_codec.fits({"pin": "hunter2"}))

"""JSON Schemas that came from elsewhere."""

import json
import sys

import pytest

from toolstile_hookspecs import DefinitionError, ToolValidationError
from toolstile_hookspecs._schema.schema_codec import SchemaCodec

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "depth": {"$ref": "#/$defs/depth"},
    },
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"depth": {"type": "integer", "minimum": 0}},
}


def codec(schema=SCHEMA):
    return SchemaCodec(schema, owner="Tool 'walk', params")


def test_values_are_plain_json_and_come_back_the_same():
    value = {"path": "a", "depth": 2}
    assert codec().decode(codec().encode(value)) == value
    assert codec().fits(value) is None


def test_all_faults_are_told_at_once():
    with pytest.raises(ToolValidationError) as caught:
        codec().decode('{"path": "", "depth": "2", "deep": 1}')
    told = str(caught.value)
    assert told.startswith("Invalid arguments:")
    assert told.count("  - ") == 3
    assert "depth: '2' is not of type 'integer'" in told
    assert "deep: not known; did you mean 'depth'?" in told


def faults_of(schema, value):
    """Return what is told of a value, line by line."""
    with pytest.raises(ToolValidationError) as caught:
        codec(schema).decode(json.dumps(value))
    heading, *faults, end = str(caught.value).splitlines()
    assert (heading, end) == ("Invalid arguments:", "Fix these, then retry.")
    return [each.removeprefix("  - ") for each in faults]


NOTE = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "text": {"type": "string"}},
    "required": ["title", "text"],
}


def test_what_is_missing_is_told_with_what_was_given_in_its_place():
    assert faults_of(NOTE, {"titles": "a", "text": 3, "colour": "red"}) == [
        "title: required, but missing",
        "titles: not known; did you mean 'title'?",
        "text: 3 is not of type 'string'",
    ]


def test_what_may_not_be_given_is_told_name_by_name():
    assert faults_of({**NOTE, "additionalProperties": False}, {"titles": "a", "colour": "b"}) == [
        "title: required, but missing",
        "text: required, but missing",
        "titles: not known; did you mean 'title'?",
        "colour: not known",
    ]


def test_what_is_missing_within_is_told_with_its_place():
    notes = {"type": "object", "properties": {"notes": {"type": "array", "items": NOTE}}}
    assert faults_of(notes, {"notes": [{"title": "a", "txt": "b"}]}) == [
        "notes[0].text: required, but missing",
        "notes[0].txt: not known; did you mean 'text'?",
    ]


def test_a_name_that_another_part_of_the_schema_knows_is_not_taken_for_a_mistake():
    ends = {
        "type": "object",
        "allOf": [
            {"properties": {"from_date": {"type": "string"}}},
            {"properties": {"to_date": {"type": "string"}}, "required": ["to_date"]},
        ],
    }
    assert faults_of(ends, {"from_date": "a"}) == ["to_date: required, but missing"]


def test_names_that_fit_a_pattern_are_not_among_what_may_not_be_given():
    tagged = {**NOTE, "patternProperties": {"^x-": {}}, "additionalProperties": False}
    (told,) = faults_of(tagged, {"title": "a", "text": "b", "x-c": 1, "y-c": 2})
    assert told == "arguments: 'y-c' does not match any of the regexes: '^x-'"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["", "{", '{"path": NaN}', '{"path": "\ud800"}', "[" * 10_000, b"\xff"]
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ToolValidationError, match="not valid JSON"):
        codec().decode(text)


@pytest.mark.parametrize("text", ['{"path": "a", "path": "b"}', '{"path": "a", "depth": 1e999}'])
def test_lenient_json_is_refused(text):
    with pytest.raises(ToolValidationError, match="then retry"):
        codec().decode(text)


@pytest.mark.slow
def test_a_long_value_is_not_echoed():
    with pytest.raises(ToolValidationError) as caught:
        codec().decode('{"path": "a", "depth": "' + "x" * 10_000_000 + '"}')
    assert len(str(caught.value)) < 400


def test_a_secret_is_not_echoed():
    hidden = {"type": "object", "properties": {"key": {"type": "string", "writeOnly": True}}}
    with pytest.raises(ToolValidationError) as caught:
        codec(hidden).decode('{"key": 31337}')
    assert "31337" not in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": False},
        {"additionalProperties": {"type": "string"}},
        {"patternProperties": {"^h": {"type": "string"}}},
        {"required": ["hunter"]},
    ],
)
def test_a_name_that_nobody_declared_is_not_echoed_where_secrets_are_about(more):
    key = {"key": {"type": "string", "format": "password"}}
    with pytest.raises(ToolValidationError) as caught:
        codec({"type": "object", "properties": key, **more}).decode('{"hunter2": 7}')
    assert "hunter2" not in str(caught.value)


PRICE = {"properties": {"price": {"type": "number", "multipleOf": 0.01}}}


@pytest.mark.parametrize("price", ["19.99", "0.07", "4.35", "-0.1", "1", "1.0", "1e300", "0"])
def test_a_multiple_of_a_decimal_is_one_as_it_is_written(price):
    assert codec(PRICE).decode(f'{{"price": {price}}}') == {"price": json.loads(price)}


@pytest.mark.parametrize("price", [19.999, 0.0700001, 1e-300])
def test_what_is_no_multiple_is_told(price):
    assert faults_of(PRICE, {"price": price}) == [f"price: {price} is not a multiple of 0.01"]


def test_numbers_of_every_size_can_be_multiples():
    tiny = codec({"items": {"multipleOf": 5e-324}})
    assert tiny.decode(f"[1e308, 5e-324, {10**4000}]") == [1e308, 5e-324, 10**4000]
    assert codec({"items": {"multipleOf": 7}}).decode('["a", 14.0, true]') == ["a", 14.0, True]


def test_a_wrong_schema_is_refused_where_it_is_written():
    with pytest.raises(DefinitionError, match="Tool 'walk', params: its JSON Schema is not valid"):
        codec({"type": 5})


@pytest.mark.parametrize(
    "target",
    [
        "https://example.org/schema.json",
        "other.json",
        "#/$defs/missing",
        "#/properties/a/oneOf/2",
        f"#/properties/a/oneOf/{'9' * 5000}",
    ],
)
def test_what_is_not_in_the_schema_cannot_be_referred_to(target):
    with pytest.raises(DefinitionError, match="which is not in it; copy"):
        codec({"type": "object", "properties": {"a": {"oneOf": [{"$ref": target}, {}]}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "object"}}},
        {"$ref": "#/$defs/Box%5Bint%5D", "$defs": {"Box[int]": {"type": "object"}}},
        {"$ref": "#/$defs/a%7E0b%20c", "$defs": {"a~b c": {"type": "object"}}},
        {"properties": {"a": {"$ref": "#"}}},
        {"allOf": [{"type": "object"}, {"$ref": "#/allOf/0"}]},
        {"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "object"}}},
    ],
)
def test_references_within_the_schema_are_followed(schema):
    assert codec(schema).decode("{}") == {}


def deeper(frames, call):
    """Return what a call returns that is made so many frames further up the stack."""
    return deeper(frames - 1, call) if frames else call()


@pytest.mark.parametrize(
    "schema",
    [{"allOf": [{"$ref": "#"}]}, {"not": {"$ref": "#"}}, {"$anchor": "it", "not": {"$ref": "#it"}}],
)
def test_by_a_schema_without_an_end_nothing_is_taken(schema):
    endless = codec({"type": "object", **schema})
    # Where the stack ends depends on where it begins, and what ends there on that.
    for frames in range(40):
        with pytest.raises(ToolValidationError, match="refers to itself without an end"):
            deeper(frames, lambda: endless.decode("{}"))
    assert "refers to itself without an end" in (endless.fits({}) or "")


def test_the_schema_is_given_as_a_copy():
    mine = codec()
    mine.schema()["properties"].clear()
    assert "path" in mine.schema()["properties"]


def test_a_value_that_json_cannot_say_does_not_fit():
    assert codec().fits({"path": object()}) is not None
    assert "required" in codec().fits({})


@pytest.mark.slow
def test_jsonschema_is_imported_only_when_needed():
    import subprocess

    text = "import sys, toolstile_hookspecs; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0

"""JSON Schemas that came from elsewhere."""

import sys

import pytest

from toolyard_hookspecs import DefinitionError, ToolValidationError
from toolyard_hookspecs.schema_codec import SchemaCodec

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
    assert "'deep' was unexpected" in told


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


def test_a_wrong_schema_is_refused_where_it_is_written():
    with pytest.raises(DefinitionError, match="Tool 'walk', params: its JSON Schema is not valid"):
        codec({"type": 5})


@pytest.mark.parametrize(
    "target", ["https://example.org/schema.json", "#/$defs/missing", "other.json"]
)
def test_what_is_not_in_the_schema_cannot_be_referred_to(target):
    with pytest.raises(DefinitionError, match="which is not in it; copy"):
        codec({"type": "object", "properties": {"a": {"$ref": target}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "object"}}},
        {"properties": {"a": {"$ref": "#"}}},
        {"allOf": [{"type": "object"}, {"$ref": "#/allOf/0"}]},
        {"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "object"}}},
    ],
)
def test_references_within_the_schema_are_followed(schema):
    assert codec(schema).decode("{}") == {}


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

    text = "import sys, toolyard_hookspecs; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0

"""Schemas are taken apart and put together without losing what fits them."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, strategies as st

from toolstile_plugins.dialects import json_schema as schemas


@pytest.mark.slow
def test_inlining_leaves_no_reference_and_keeps_what_fits(schemas_and_values, fits):
    @given(schemas_and_values)
    def check(drawn):
        schema, value = drawn
        assert fits(schema, value)
        before = copy.deepcopy(schema)
        inlined = schemas.inline(schema)
        assert schema == before
        for each in schemas.walk(inlined):
            assert not {"$ref", "$defs", "definitions"} & each.keys()
        assert fits(inlined, value)

    check()


def test_a_property_that_is_called_like_a_keyword_stays():
    schema = {"properties": {"$ref": {"type": "string"}, "$defs": {"title": "T"}}, "title": "X"}
    assert schemas.inline(schema) == schema


def test_a_schema_within_itself_ends_in_a_generic_object():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    inlined = schemas.inline({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert inlined == {
        "type": "object",
        "properties": {
            "next": {"type": "object", "description": "Another Node, of the same shape."}
        },
    }


def test_what_stands_beside_a_reference_wins():
    schema = {
        "properties": {"a": {"$ref": "#/definitions/A", "description": "Mine."}},
        "definitions": {"A": {"type": "string", "description": "Theirs."}},
    }
    assert schemas.inline(schema)["properties"]["a"] == {"type": "string", "description": "Mine."}


def test_references_that_double_at_each_step_do_not_explode():
    steps = {
        f"S{i}": {
            "type": "object",
            "properties": {s: {"$ref": f"#/$defs/S{i + 1}"} for s in "ab"},
        }
        for i in range(60)
    }
    inlined = schemas.inline({"$ref": "#/$defs/S0", "$defs": steps})
    assert sum(1 for _ in schemas.walk(inlined)) < 3 * schemas.MAX_NODES


@given(st.sampled_from(["http://example.com/s.json", "#/nowhere", "#anchor", "other", "#/a/0/b"]))
def test_a_reference_that_means_nothing_here_is_an_object_of_any_kind(reference):
    assert schemas.resolve({"a": []}, reference) is None
    assert schemas.inline({"$ref": reference})["type"] == "object"


def test_references_are_json_pointers():
    document = {"$defs": {"a/b c": {"type": "string"}}, "anyOf": [{"type": "null"}]}
    assert schemas.resolve(document, "#/$defs/a~1b%20c") == {"type": "string"}
    assert schemas.resolve(document, "#/anyOf/0") == {"type": "null"}
    assert schemas.resolve(document, "#") is document


def test_the_root_becomes_an_object_that_is_no_reference():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    rooted = schemas.object_rooted({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert rooted == {**node, "$defs": {"Node": node}}


def test_a_union_at_the_root_becomes_one_object_that_takes_all_its_variants(fits):
    one = {
        "type": "object",
        "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}},
        "required": ["kind", "x"],
        "additionalProperties": False,
    }
    two = {
        "type": "object",
        "properties": {"kind": {"const": "b"}},
        "required": ["kind"],
        "additionalProperties": False,
    }
    rooted = schemas.object_rooted({"anyOf": [one, {"$ref": "#/$defs/Two"}], "$defs": {"Two": two}})
    assert rooted["required"] == ["kind"]
    assert rooted["additionalProperties"] is False
    assert fits(rooted, {"kind": "a", "x": 1})
    assert fits(rooted, {"kind": "b"})


def test_a_union_that_only_narrows_an_object_is_left_to_parsing():
    schema = {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    assert schemas.object_rooted(schema) == {"type": "object", "properties": {"a": {}, "b": {}}}


def test_opening_lets_objects_hold_more_at_every_depth():
    closed = {"type": "object", "additionalProperties": False}
    schema = {**closed, "properties": {"a": {"type": "array", "items": closed}}}
    assert schemas.opened(schema) == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "object"}}},
    }


def test_walking_meets_every_schema_wherever_keywords_hold_them():
    schema = {
        "properties": {"a": {"items": {"title": "1"}}},
        "anyOf": [{"title": "2"}, True],
        "not": {"title": "3"},
        "enum": [{"title": "no schema"}],
    }
    titles = [each.get("title") for each in schemas.walk(schema)]
    assert sorted(title for title in titles if title) == ["1", "2", "3"]

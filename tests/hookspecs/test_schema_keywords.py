"""Keywords of JSON Schema that are checked exactly, and in bounded time."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolstile_hookspecs import ToolValidationError
from toolstile_hookspecs._schema.schema_codec import SchemaCodec

UNIQUE = {"properties": {"a": {"uniqueItems": True}}}
ATOMS = st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from([0.0, 1.0, 0.5, "", "1"])
VALUES = st.recursive(
    ATOMS,
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b"]), inside, max_size=2)
    ),
    max_leaves=6,
)


def decode(text):
    return SchemaCodec(UNIQUE, owner="Tool 'tag', params").decode(text)


@pytest.mark.parametrize(
    ("items", "shown"),
    [
        ('["x", "y", "x"]', "'x'"),
        ("[1, 1.0]", "1.0"),
        ('[{"n": 1, "m": [true]}, {"m": [true], "n": 1.0}]', "{'m': [True], 'n': 1.0}"),
    ],
)
def test_an_item_that_is_there_twice_is_named(items, shown):
    with pytest.raises(ToolValidationError) as caught:
        decode(f'{{"a": {items}}}')
    assert f"  - a: {shown} is there more than once\n" in str(caught.value)


def test_true_and_1_are_two_items():
    assert len(decode('{"a": [true, 1, [true], [1], false, 0, {}, [], null, ""]}')["a"]) == 10


@given(items=st.lists(VALUES, max_size=4))
def test_items_are_equal_where_json_schema_says_so(items):
    plain = Draft202012Validator({"uniqueItems": True}).is_valid(items)
    try:
        decode(json.dumps({"a": items}))
    except ToolValidationError:
        assert not plain
    else:
        assert plain


def test_many_items_are_each_looked_at_once():
    many = json.dumps({"a": [{"n": number} for number in range(200_000)]})
    assert len(decode(many)["a"]) == 200_000

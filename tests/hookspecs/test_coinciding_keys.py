"""Results of which JSON would hold fewer entries are refused, at no cost for others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from toolstile_hookspecs._schema.codec import Codec
from toolstile_hookspecs._schema.schema_codec import SchemaCodec
from toolstile_hookspecs._schema.serialize import COINCIDING, NOT_FINITE, could_coincide

TWINS = {1: "a", "1": "b"}


@dataclass
class Counts:
    by_name: dict[int | str, str]


@dataclass
class Anything:
    value: Any = None
    config: dict[str, str] = field(default_factory=dict)


class Open(BaseModel, extra="allow"):
    name: str = ""


class Typed(TypedDict):
    type: str
    default: Any


@dataclass
class Plain:
    name: str
    ids: list[int]
    names: Sequence[str]
    by_id: dict[int, str]
    by_name: "dict[str, Plain | None]"
    config: dict[date, bool]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Any, TWINS),
        (Any, {True: 1, "true": 2}),
        (Any, {b"a": 1, "a": 2}),
        (Any, [1, {"a": ({"b": TWINS},)}]),
        (Any, MappingProxyType(TWINS)),
        (Any, Counts(TWINS)),
        (dict, TWINS),
        (dict[int | str, str], TWINS),
        (list[dict[Any, str]], [TWINS]),
        (Counts, Counts(TWINS)),
        (Anything, Anything(TWINS)),
        (Open, Open(more=TWINS)),
        (Typed, {"type": "a", "default": TWINS}),
    ],
)
def test_keys_that_are_written_alike_are_refused(kind, value):
    with pytest.raises(ValueError, match=COINCIDING):
        Codec(kind, owner="test").encode(value)


@pytest.mark.parametrize("kind", [Any, dict, dict[float, int], dict[float | str, int]])
@pytest.mark.parametrize("key", [math.nan, math.inf, -math.inf])
def test_keys_that_json_cannot_say_are_refused(kind, key):
    with pytest.raises(ValueError, match=NOT_FINITE):
        Codec(kind, owner="test").encode({key: 1})


def test_a_result_with_a_json_schema_is_looked_at_as_well():
    codec = SchemaCodec({"type": "object"}, owner="test")
    assert codec.encode({1: "a", "2": "b"}) == b'{"1":"a","2":"b"}'
    with pytest.raises(ValueError, match=COINCIDING):
        codec.encode({"a": [TWINS]})
    with pytest.raises(ValueError, match=NOT_FINITE):
        codec.encode({"a": [{math.inf: 1}]})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({1: "a", "2": "b"}, b'{"1":"a","2":"b"}'),
        ({"nan": 1, None: 2}, b'{"nan":1,"None":2}'),
        ({1.5: {"a": [1, "1"]}}, b'{"1.5":{"a":[1,"1"]}}'),
        ([{"1": 1}, {1: 1}, {}], b'[{"1":1},{"1":1},{}]'),
        (Counts({1: "a"}), b'{"by_name":{"1":"a"}}'),
    ],
)
def test_other_keys_are_written_as_they_were(value, text):
    assert Codec(Any, owner="test").encode(value) == text


@pytest.mark.parametrize("depth", [1, 100, 230])
def test_keys_are_told_apart_however_deep_they_are(depth):
    def nested(value):
        for _ in range(depth):
            value = [value]
        return value

    codec = Codec(Any, owner="test")
    assert b'{"1":"a","2":"b"}' in codec.encode(nested({1: "a", "2": "b"}))
    with pytest.raises(ValueError, match=COINCIDING):
        codec.encode(nested(TWINS))


@pytest.mark.parametrize("kind", [Plain, list[Plain], dict[str, list[Plain]], int, str, None])
def test_types_that_can_have_no_such_keys_are_not_looked_at(kind):
    assert not could_coincide(TypeAdapter(kind).core_schema)

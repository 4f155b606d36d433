"""Values go to strict JSON and come back the same."""

import dataclasses
import gc
import math
import re
import weakref
from collections import UserList
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

import pytest
import typing_extensions
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, SecretBytes, SecretStr, computed_field

from toolstile_hookspecs import DefinitionError, ToolValidationError
from toolstile_hookspecs._schema.codec import Codec, NoParams, codec_of, describe
from toolstile_hookspecs._schema.serialize import as_json

T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0


@dataclasses.dataclass(frozen=True)
class Spot:
    x: int
    y: float = 0.0


class Shape(BaseModel):
    kind: Annotated[str, Field(alias="shapeKind")]
    points: list[Point] = []
    colour: Colour | None = None


class Movie(typing_extensions.TypedDict):
    title: str
    year: typing_extensions.NotRequired[int]


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]
    next: str | None = None


class Login(BaseModel):
    user: str
    password: SecretStr
    keys: tuple[SecretBytes, ...] = ()


NATURAL = Annotated[int, Field(ge=0)]
KINDS = [
    int,
    str,
    bool,
    Decimal,
    UUID,
    date,
    datetime,
    timedelta,
    Colour,
    Point,
    Shape,
    Movie,
    Page[Point],
    Page[int],
    dict[str, Movie],
    tuple[int, ...],
    frozenset[str],
    int | str | None,
    NATURAL,
]


finite = st.floats(allow_nan=False, allow_infinity=False)
points = st.builds(Point, st.integers(), finite)
after = st.none() | st.text()
STRATEGIES = {
    NATURAL: st.integers(min_value=0),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    datetime: st.datetimes(),
    timedelta: st.timedeltas(timedelta(days=-999), timedelta(days=999)),
    Point: points,
    Shape: st.builds(
        Shape,
        shapeKind=st.text(),
        points=st.lists(points),
        colour=st.none() | st.sampled_from(Colour),
    ),
    Page[Point]: st.builds(Page, st.lists(points), after),
    Page[int]: st.builds(Page, st.lists(st.integers()), after),
}


def _values(kind):
    return STRATEGIES[kind] if kind in STRATEGIES else st.from_type(kind)


@pytest.mark.slow
@given(st.data())
def test_what_is_encoded_comes_back_the_same(data):
    kind = data.draw(st.sampled_from(KINDS))
    value = data.draw(_values(kind))
    codec = Codec(kind, owner="test", reveals=True)
    assert codec.decode(codec.encode(value)) == value
    assert codec.fits(value) is None


@pytest.mark.slow
@given(st.data())
def test_random_dataclasses_come_back_the_same(data):
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    record = dataclasses.make_dataclass("Record", [(f"f{i}", kind) for i, kind in enumerate(kinds)])
    value = record(*(data.draw(_values(kind)) for kind in kinds))
    codec = Codec(record, owner="test")
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.slow
def test_params_keep_their_secrets_and_results_hide_them():
    value = Login(user="ada", password="hunter2", keys=(b"k",))
    codec = Codec(Login, owner="test", reveals=True)
    again = codec.decode(codec.encode(value))
    assert again.password.get_secret_value() == "hunter2"
    assert again.keys[0].get_secret_value() == b"k"
    assert b"hunter2" not in Codec(Login, owner="test").encode(value)


def test_a_computed_field_is_written():
    class Box(BaseModel):
        side: int

        @computed_field
        @property
        def area(self) -> int:
            return self.side**2

    assert Codec(Box, owner="test").encode(Box(side=3)) == b'{"side":3,"area":9}'


def test_unknown_names_are_refused_whatever_the_model_allows():
    class Open(BaseModel, extra="allow"):
        a: int

    codec = Codec(Open, owner="test", reveals=True)
    assert codec.schema()["additionalProperties"] is False
    with pytest.raises(ToolValidationError, match="b: not known"):
        codec.decode('{"a": 1, "b": 2}')


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "",
        "nope",
        "{",
        '{"x": 1',
        b"\xff",
        '{"x": "\ud800"}',
        '{"x": "\\ud800"}',
        '{"x": ' * 10_000,
        '{"x": ' + "[" * 10_000 + "]" * 10_000 + "}",
        "[" * 10_000,
    ],
)
def test_what_is_no_json_is_refused_shortly(text):
    with pytest.raises(ToolValidationError, match=r"not valid JSON .*then retry") as caught:
        Codec(Point, owner="test").decode(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "got"), [("[]", "an array"), ("1", "1"), ("null", "null"), ('"a"', '"a"')]
)
def test_what_is_no_object_is_refused(text, got):
    with pytest.raises(ToolValidationError, match=r"arguments: .*object") as caught:
        Codec(Point, owner="test").decode(text)
    assert got in str(caught.value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_float_is_a_finite_number(number):
    with pytest.raises(ToolValidationError, match=number):
        Codec(Point, owner="test").decode(f'{{"x": 1, "y": {number}}}')


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_is_taken(number):
    assert Codec(float, owner="test").decode(repr(number)) == number


def test_a_duplicate_name_is_refused_also_within():
    codec = Codec(dict[str, Any], owner="test")
    for text in ('{"a": 1, "a": 1}', '{"x": {"a": 1, "a": 1}}', '[{"a": 1, "a": 1}]'):
        with pytest.raises(ToolValidationError):
            codec.decode(text)


class Odd:
    pass


class Failing:
    @classmethod
    def __get_pydantic_core_schema__(cls, kind, handler):
        raise ValueError("not today")


def test_a_type_without_schema_is_refused_with_the_remedy():
    with pytest.raises(DefinitionError, match=r"Tool 'x': no JSON schema .*Odd.* Use a dataclass"):
        Codec(Odd, owner="Tool 'x'")


def test_a_type_without_schema_is_named_and_the_advice_of_pydantic_is_left_out():
    @dataclasses.dataclass
    class Params:
        number: int
        text: Odd

    with pytest.raises(DefinitionError) as caught:
        Codec(Params, owner="Tool 'add', params")
    told = str(caught.value)
    assert "Params (Unable to generate" in told
    assert told.endswith(
        "Odd'>). Use a dataclass, a pydantic model, a TypedDict or plain JSON types."
    )


def test_names_that_cannot_be_found_are_told_with_the_remedy():
    @dataclasses.dataclass
    class Lost:
        inner: "Nowhere"  # noqa: F821 - not to be found

    with pytest.raises(DefinitionError, match="top level of a module"):
        Codec(Lost, owner="Tool 'x'")


def test_a_typed_dict_of_typing_is_told_where_to_come_from_before_312():
    from typing import TypedDict

    class Old(TypedDict):
        a: int

    try:
        codec = Codec(Old, owner="Tool 'x'")
    except DefinitionError as error:
        assert "import TypedDict from typing_extensions" in str(error)  # noqa: PT017 - from 3.12 on nothing is raised
    else:
        assert codec.decode('{"a": 1}') == {"a": 1}


def test_no_params_are_an_empty_object_and_none():
    codec = NoParams()
    assert codec.decode(codec.encode(None)) is None
    assert codec.fits(None) is None
    assert "no params" in codec.fits(1)
    assert codec.schema()["additionalProperties"] is False
    with pytest.raises(ToolValidationError, match="a: not known"):
        codec.decode('{"a": 1}')


@pytest.mark.parametrize("kind", [Any, Mapping[str, Any], dict[str, Any]])
def test_mappings_and_sequences_of_every_kind_are_written(kind):
    value = MappingProxyType({"a": UserList([1, None]), "b": {"x": 1}.keys()})
    assert Codec(kind, owner="demo").encode(value) == b'{"a":[1,null],"b":["x"]}'
    with pytest.raises(ValueError, match="NaN"):
        Codec(kind, owner="demo").encode(MappingProxyType({"a": UserList([math.nan])}))


def test_a_mapping_is_taken_as_a_provider_would_have_sent_it():
    assert as_json({"a": [1]}) == '{"a": [1]}'
    # Of plain values, likewise, in less time.
    assert as_json({"a": 1, 2: "\u00e9\0", "c": True}) == '{"a":1,"2":"\u00e9\\u0000","c":true}'
    assert as_json("{}") == "{}"
    assert as_json(b"{}") == b"{}"


@pytest.mark.parametrize(("value", "text"), [(None, "null"), (3, "3"), ([("a", 1)], '[["a", 1]]')])
def test_what_is_no_mapping_is_taken_as_it_is(value, text):
    assert as_json(value) == text


def _circle():
    value = {}
    value["self"] = value
    return value


@pytest.mark.parametrize("value", [{"a": math.nan}, {"a": object()}, {"a": b"x"}, _circle()])
def test_a_mapping_that_json_cannot_say_is_refused(value):
    with pytest.raises(ToolValidationError, match=r"not valid JSON|no JSON form"):
        as_json(value)


def test_a_lone_surrogate_in_a_mapping_is_refused():
    with pytest.raises(ToolValidationError, match="not valid JSON"):
        Codec(Movie, owner="test").decode(as_json({"title": "\ud800"}))


def test_types_are_described_as_they_are_written():
    assert describe(Point) == "Point"
    assert describe(list[int]) == "list[int]"
    assert describe(Any) == "Any"


def test_secret_params_that_are_not_finite_are_written_as_others_are():
    @dataclasses.dataclass(frozen=True)
    class Login:
        password: SecretStr
        patience: float = math.inf

    text = Codec(Login, owner="test", reveals=True).encode(Login(SecretStr("tea")))
    assert text == b'{"password":"tea","patience":null}'


def test_tools_that_share_a_class_share_its_codec(monkeypatch):
    monkeypatch.delenv("TOOLSTILE_NO_CACHE", raising=False)
    codec = codec_of(Spot, owner="one")
    assert codec_of(Spot, owner="another") is codec
    assert codec_of(Spot, owner="params", reveals=True) is not codec


def test_the_codec_of_a_class_made_by_a_running_program_lives_as_long_as_it_is_used():
    @dataclasses.dataclass
    class Made:
        x: int

    codec = codec_of(Made, owner="one")
    assert codec_of(Made, owner="another") is codec
    gone = weakref.ref(codec)
    del codec
    gc.collect()
    assert gone() is None


def test_types_that_are_equal_and_read_differently_share_no_codec():
    """Of a union the first member that fits is read."""
    there, back = Point | Spot, Spot | Point
    assert there == back
    text = '{"x": 1}'
    assert codec_of(there, owner="t").decode(text) == Point(1)
    assert codec_of(back, owner="t").decode(text) == Spot(1)


@pytest.mark.parametrize("pattern", ["(?=(a*)*b)", "^a$"])
@pytest.mark.parametrize("compiled", [True, False])
def test_no_pattern_of_params_is_left_to_python(pattern, compiled):
    given = re.compile(pattern) if compiled else pattern

    class Params(BaseModel):
        model_config = {} if compiled else {"regex_engine": "python-re"}

        text: Annotated[str, Field(pattern=given)]

    with pytest.raises(DefinitionError, match="which may take for ever; give it as text"):
        Codec(Params, owner="Tool 'find', params", reveals=True)
    assert Codec(dict[str, Annotated[str, Field(pattern="^a$")]], owner="x", reveals=True)

"""Values that JSON cannot say are refused, without the words of a library."""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from pydantic import BaseModel, field_serializer

from toolstile_hookspecs._schema.codec import Codec
from toolstile_hookspecs._schema.schema_codec import SchemaCodec
from toolstile_hookspecs._schema.serialize import NOT_FINITE, as_json, why_unwritable
from toolstile_hookspecs.errors import ToolValidationError


class Odd:
    """Nothing that JSON knows."""


class Broken(BaseModel):
    """A model that cannot be written."""

    a: int

    @field_serializer("a")
    def write(self, value):
        raise ValueError("a is not to be written")


def circle():
    inside = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (Any, Odd(), "it holds a value of type Odd, which has no JSON form"),
        (Any, {"a": [Odd()]}, "it holds a value of type Odd, which has no JSON form"),
        (Any, {Odd(): 1}, "it holds a value of type Odd, which has no JSON form"),
        (Any, circle(), "it holds itself"),
        (str, "\ud800", "it holds a lone surrogate, which is not a character"),
        (Any, b"\xff", "it holds bytes that are not text"),
        (Broken, Broken(a=1), "a is not to be written"),
        (float, math.nan, NOT_FINITE),
        (Any, {"a": [1.5, -math.inf]}, NOT_FINITE),
    ],
)
def test_the_reason_is_told_plainly(kind, value, reason):
    with pytest.raises(ValueError, match=r".") as raised:
        Codec(kind, owner="test").encode(value)
    assert why_unwritable(raised.value) == reason


def test_values_nested_too_deeply_are_told_so():
    assert why_unwritable(RecursionError("maximum recursion depth")) == "it is nested too deeply"


def test_an_exception_without_a_text_is_named():
    assert why_unwritable(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, NOT_FINITE),
        (circle(), "it holds itself"),
        ({(1, 2): "a"}, "keys must be"),
    ],
)
def test_arguments_that_no_provider_could_send_are_told_alike(value, reason):
    with pytest.raises(ToolValidationError, match=reason):
        as_json({"a": value})


def test_containers_of_python_s_own_are_written_as_those_of_json():
    values = {"to": MappingProxyType({"ids": {1}}), "range": range(2)}
    assert as_json(values) == '{"to": {"ids": [1]}, "range": [0, 1]}'


@pytest.mark.parametrize("value", [date(2026, 11, 23), Odd(), b"x"])
def test_other_objects_are_told_by_their_types(value):
    with pytest.raises(ToolValidationError, match=f"a value of type {type(value).__name__}, which"):
        as_json({"a": [value]})


def test_arguments_that_are_odd_and_hold_themselves_are_told_of_one_fault():
    with pytest.raises(ToolValidationError, match="it holds a value of type Odd"):
        as_json({"a": Odd(), "b": circle()})


@dataclass(frozen=True)
class Measured:
    """A value among what may be missing."""

    label: str | None
    value: float | None


def numbers_in(value):
    if isinstance(value, float):
        yield value
    elif value is not None:
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(each)


NUMBERS = st.none() | st.floats()


@pytest.mark.slow
@given(st.text(alphabet="nul"), NUMBERS)
def test_of_a_dataclass_only_what_is_finite_is_written(label, number):
    codec = Codec(Measured, owner="test")
    value = Measured(label or None, number)
    if number is None or math.isfinite(number):
        assert codec.decode(codec.encode(value)) == value
    else:
        with pytest.raises(ValueError, match="NaN or Infinity"):
            codec.encode(value)


@pytest.mark.slow
@example(math.inf)
@example([math.nan])
@given(st.recursive(NUMBERS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_nothing_is_written_as_null_but_none(value):
    codecs = (Codec(Any, owner="test"), SchemaCodec({"type": "object"}, owner="test"))
    infinite = not all(map(math.isfinite, numbers_in(value)))
    for codec in codecs:
        with pytest.raises(ValueError, match=NOT_FINITE) if infinite else nullcontext():
            codec.encode({"value": value})

"""What JSON cannot say is found out, and told without the words of a library."""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
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


def test_arguments_of_python_s_own_kinds_are_told_with_what_to_write_instead():
    values = {
        "at": date(2026, 11, 23),
        "to": {"ids": {1}, "in": MappingProxyType({})},
        "odd": (Odd(), b"x"),
        "fine": [None, True, 1, 1.5, "", [], {}],
    }
    with pytest.raises(ToolValidationError) as raised:
        as_json(values)
    assert str(raised.value).splitlines() == [
        "Invalid arguments:",
        "  - at: a value of type date, which has no JSON form; write it as text, with isoformat()",
        "  - to.ids: a value of type set, which has no JSON form; write a list",
        "  - to.in: a value of type mappingproxy, which has no JSON form; write a dict",
        "  - odd[0]: a value of type Odd, which has no JSON form; write it as text or a dict",
        "  - odd[1]: a value of type bytes, which has no JSON form; write it as text or a dict",
        "Fix these, then retry.",
    ]


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

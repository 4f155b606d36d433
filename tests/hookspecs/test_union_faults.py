"""Faults of a typed union are told by alternatives, the likeliest first, and in JSON's words."""

import json
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr, create_model
from typing_extensions import TypedDict

from toolstile_hookspecs import ToolValidationError
from toolstile_hookspecs._schema.codec import Codec


@dataclass
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


@dataclass
class Box:
    width: int
    height: int
    kind: Literal["box"] = "box"


class Note(BaseModel):
    title: str
    stars: Annotated[int, Field(ge=1)]


class Words(TypedDict):
    words: list[int | list[str]]


Shape = Annotated[Circle | Box, Field(discriminator="kind")]


def faults(kind: Any, value: object) -> list[str]:
    """Return the lines about a param `it` of this type."""
    codec = Codec(create_model("Params", it=(kind, ...)), owner="test", reveals=True)
    with pytest.raises(ToolValidationError) as caught:
        codec.decode(json.dumps({"it": value}))
    first, *lines, last = str(caught.value).splitlines()
    assert (first, last) == ("Invalid arguments:", "Fix these, then retry.")
    return [line.removeprefix("  - ") for line in lines]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (int | list[str], "x", 'a valid integer or array, got "x"'),
        (int | list[str], {"a": 1}, "a valid integer or array, got an object"),
        (Circle | Box | None, 3, "an object, got 3"),
        (Literal["auto"] | int, "x", "'auto' or a valid integer, got \"x\""),
        (date | int | None, [], "a valid date or integer, got an array"),
    ],
)
def test_of_a_value_that_has_none_of_the_types_it_is_told_which_there_are(kind, value, told):
    assert faults(kind, value) == [f"it: input should be {told}"]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (int | list[str], ["x", 3], ["it[1]: input should be a valid string, got 3"]),
        (
            dict[str, int] | list[str],
            {"a": "b"},
            ['it.a: input should be a valid integer, got "b"'],
        ),
        (
            dict[str, int | list[Note]] | None,
            {"a": [{"stars": "b"}]},
            [
                "it.a[0].title: required, but missing",
                'it.a[0].stars: input should be a valid integer, got "b"',
            ],
        ),
        (
            bool | Words,
            {"words": [{}]},
            ["it.words[0]: input should be a valid integer or array, got an object"],
        ),
    ],
)
def test_where_the_type_tells_the_alternative_only_that_one_is_told(kind, value, told):
    assert faults(kind, value) == told


def test_each_alternative_that_may_be_meant_is_told_by_itself_and_the_likeliest_first():
    assert faults(list[Circle | Note], [{"title": "a", "stars": 0}]) == [
        "it[0]: fits none of its 2 alternatives; the likeliest are",
        "(1) it[0].stars: input should be greater than or equal to 1, got 0",
        "(2) it[0].radius: required, but missing; it[0].title: not known; it[0].stars: not known",
    ]


def test_one_that_the_value_names_comes_first():
    assert faults(Box | Circle, {"kind": "circle", "width": 1, "height": 2}) == [
        "it: fits none of its 2 alternatives; the likeliest are",
        "(1) it.radius: required, but missing; it.width: not known; it.height: not known",
        "(2) it.kind: input should be 'box', got \"circle\"",
    ]


def test_of_alternatives_with_tags_only_the_named_one_is_told_without_its_tag():
    assert faults(Shape | None, {"kind": "box", "box": 3, "width": 1}) == [
        "it.height: required, but missing",
        "it.box: not known",
    ]
    assert faults(list[Shape], [{"kind": "circle", "radius": "x"}]) == [
        'it[0].radius: input should be a valid number, got "x"'
    ]
    assert faults(Shape | int, {"kind": "circle", "radius": "x"}) == [
        'it.radius: input should be a valid number, got "x"'
    ]


@pytest.mark.parametrize("value", [{"kind": "oval"}, {}])
def test_the_tags_that_there_are_are_told(value):
    told = """kind should be one of ["circle", "box"], got an object"""
    assert faults(Shape, value) == [f"it: {told}"]


class Login(BaseModel):
    password: SecretStr


def test_about_secrets_nothing_that_was_given_is_told():
    told = "\n".join(faults(Login | list[int], {"password": 31337, "hunter2": 1}))
    assert "it.password: " in told
    assert "it.***: not known" in told
    assert "31337" not in told
    assert "hunter2" not in told
    assert faults(Login | int, "hunter2") == ["it: input should be an object or a valid integer"]


@pytest.mark.parametrize("kind", [Shape, Circle | Box, Shape | int])
def test_what_fits_is_read_as_before(kind):
    codec = Codec(create_model("Params", it=(kind, ...)), owner="test", reveals=True)
    read = codec.decode('{"it": {"kind": "box", "width": 1, "height": 2}}')
    assert read.it == Box(1, 2)
    assert codec.copy(codec.encode(read)) == read

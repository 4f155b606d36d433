"""What was read tells how many names the text had."""

import dataclasses
import json
import math
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from typing_extensions import TypedDict

from toolstile_hookspecs._schema.strict import UNTOLD, check_names, name_counter
from toolstile_hookspecs.errors import ToolValidationError


class Leaf(BaseModel):
    text: str = ""
    size: float | None = None


class Named(TypedDict):
    kind: Literal["a", "b"]
    leaf: NotRequired[Leaf]


class Point(BaseModel):
    """All of it has to be given."""

    name: str
    x: float
    y: float


@dataclasses.dataclass
class Tree:
    leaf: Leaf
    named: Named
    points: list[Point]
    sizes: list[float]
    leaves: list[Leaf] = dataclasses.field(default_factory=list)
    by_name: dict[str, Leaf] | None = None
    note: str | None = None
    count: int = 0


ADAPTER = TypeAdapter(Tree)
COUNT = name_counter(ADAPTER.core_schema)
WORDS = st.sampled_from(["", "a", "b", "10:30", 'say "x": 1', "ä"])
NUMBERS = st.floats() | st.just(1e308)
LEAVES = st.fixed_dictionaries({}, optional={"text": WORDS, "size": st.none() | NUMBERS})
POINTS = st.fixed_dictionaries({"name": WORDS, "x": NUMBERS, "y": NUMBERS})
TREES = st.fixed_dictionaries(
    {
        "leaf": LEAVES,
        "named": st.fixed_dictionaries(
            {"kind": st.sampled_from(["a", "b"])}, optional={"leaf": LEAVES}
        ),
        "points": st.lists(POINTS, max_size=3),
        "sizes": st.lists(NUMBERS, max_size=3),
    },
    optional={
        "leaves": st.lists(LEAVES, max_size=3),
        "by_name": st.none() | st.dictionaries(WORDS, LEAVES, max_size=3),
        "note": st.none() | WORDS,
        "count": st.integers(0, 2),
    },
)


def written(value: Any, draw: st.DrawFn) -> str:
    """Write JSON, giving some names twice and spelling some strings with escapes."""
    if isinstance(value, dict):
        pairs = [(name, each) for name, each in value.items()]
        if pairs and draw(st.integers(0, 5)) == 0:
            pairs.insert(draw(st.integers(0, len(pairs))), draw(st.sampled_from(pairs)))
        return "{" + ",".join(f"{word(n, draw)}:{written(v, draw)}" for n, v in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(each, draw) for each in value) + "]"
    return word(value, draw) if isinstance(value, str) else json.dumps(value)


def word(text: str, draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return json.dumps(text)
    return '"' + "".join(f"\\u{ord(each):04x}" for each in text) + '"'


@st.composite
def texts(draw: st.DrawFn) -> str:
    return written(draw(TREES), draw)


def is_strict(text: str) -> bool:
    try:
        check_names(text)
    except ToolValidationError:
        return False
    return True


def has_immense_sum(tree: dict[str, Any]) -> bool:
    of_points = [sum(each[name] for each in tree["points"]) for name in ("x", "y")]
    return not all(map(math.isfinite, [*of_points, sum(tree["sizes"])]))


@pytest.mark.slow
@given(texts())
def test_a_text_with_a_colon_for_each_name_has_no_name_twice_and_no_infinity(text):
    try:
        value = ADAPTER.validate_json(text, strict=True, extra="forbid")
    except ValidationError:
        return
    names = COUNT(value)
    assert names <= text.count(":")
    if names == text.count(":"):
        assert is_strict(text)


@pytest.mark.slow
@given(TREES)
def test_every_name_counts_that_is_given_and_is_not_its_default(tree):
    plain = json.dumps(tree, allow_nan=True)
    value = ADAPTER.validate_json(plain, strict=True, extra="forbid")
    unsure = sum(name in tree for name in ("leaves", "by_name", "note", "count"))
    names = COUNT(value)
    if "Infinity" in plain or "NaN" in plain or tree.get("leaves") or has_immense_sum(tree):
        assert names == UNTOLD
    else:
        assert plain.count('": ') - plain.count('x\\": ') - unsure <= names


def test_a_default_that_was_given_in_so_many_words_may_not_count():
    text = '{"leaf": {}, "named": {"kind": "a"}, "points": [], "sizes": [], "note": null}'
    assert COUNT(ADAPTER.validate_json(text)) == text.count(":") - 1


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
@pytest.mark.parametrize("text", ['{"name": "", "x": 1, "y": @}', "[1, @, 2]", "[[1], [@]]"])
def test_a_number_that_is_none_is_found_wherever_it_is(text, number):
    kind = Point if text[0] == "{" else list[list[float]] if "[[" in text else list[float]
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    value = adapter.validate_json(text.replace("@", number))
    assert name_counter(adapter.core_schema)(value) == UNTOLD


def test_names_that_all_have_to_be_given_are_counted_without_looking():
    adapter = TypeAdapter(dict[str, list[Point]])
    text = '{"a": [{"name": "", "x": 1, "y": 2}, {"name": "", "x": 1, "y": 2}], "b": []}'
    assert name_counter(adapter.core_schema)(adapter.validate_json(text)) == text.count(":")


class Doubling(BaseModel):
    one: int = 0
    two: int = 0

    @model_validator(mode="before")
    @classmethod
    def _double(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {**given, "two": 2}


class Shared(BaseModel):
    one: int = Field(validation_alias=AliasPath("both", "one"))
    two: int = Field(validation_alias=AliasPath("both", "two"))


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Rooted(BaseModel):
    one: int = 0

    def model_post_init(self, context: object) -> None:
        self.one = 1


@dataclasses.dataclass
class Late:
    one: int = 0

    def __post_init__(self) -> None:
        self.one += 1


@dataclasses.dataclass(slots=True)
class Slotted:
    one: int = 0


class Defaulted(TypedDict):
    one: Annotated[int, Field(default=1)]


class Recursive(BaseModel):
    below: "Recursive | None" = None


@pytest.mark.parametrize(
    "kind",
    [
        *(Doubling, Shared, Open, Rooted, Late, Slotted, Defaulted, Recursive),
        *(Any, int | str, set[int]),
    ],
)
@pytest.mark.parametrize("wrap", [lambda kind: kind, lambda kind: list[kind]])
def test_of_values_that_may_hold_more_or_less_than_was_given_nothing_is_told(kind, wrap):
    assert name_counter(TypeAdapter(wrap(kind)).core_schema)(None) == UNTOLD


def test_a_default_that_is_copied_made_or_checked_does_not_count():
    fields = [
        ("checked", Annotated[int, Field(default=1, validate_default=True)]),
        ("made", list[Leaf], dataclasses.field(default_factory=lambda: [Leaf(text="a")])),
        ("odd", float, dataclasses.field(default="no number")),
    ]
    record = dataclasses.make_dataclass("Record", fields, kw_only=True)
    adapter = TypeAdapter(record)
    count = name_counter(adapter.core_schema)
    assert count(adapter.validate_json("{}")) == UNTOLD
    assert count(adapter.validate_json('{"made": []}')) == 0
    assert count(adapter.validate_json('{"made": [], "checked": 5, "odd": 1.5}')) == 1

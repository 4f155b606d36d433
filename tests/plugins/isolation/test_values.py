"""Values cross between a call and its isolated handler as they are, or are refused with a text."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, PrivateAttr

from toolstile import Session
from toolstile_hookspecs import SnapshotError, Tool, ToolContext, ToolResult
from toolstile_plugins.isolation.child import run_handler
from toolstile_plugins.isolation.child_process import outcome_of
from toolstile_plugins.isolation.messages import (
    Call,
    Done,
    HandlerValues,
    HostValues,
    decoded,
    encoded,
    raised,
)
from toolstile_plugins.isolation.parent import call_of, result_of
from toolstile_plugins.isolation.proxies import Parent


class Size(IntEnum):
    SMALL = 1


class Word(StrEnum):
    HEY = "hey"


class Colour(Enum):
    RED = "red"


class Text(str):
    __slots__ = ()


class Number(int):
    pass


@dataclass(frozen=True)
class Point:
    x: int
    tags: Any = None


@dataclass(frozen=True)
class Marked(Point):
    mark: str = "m"


class Model(BaseModel):
    x: float
    more: dict[str, Any] = {}
    _cache: Any = PrivateAttr(None)


class Extended(Model):
    label: str = "l"


class Pair(NamedTuple):
    left: int
    right: Any


class Third(Pair):
    pass


class Loose:
    """A value that equals every other of its kind."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loose)

    def __hash__(self) -> int:
        return 1


def of(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values that hold others."""
    keys = st.sampled_from(["a", "b", 1, True, 1.0, (1, 2), Word.HEY, Size.SMALL, date(2026, 1, 1)])
    lists = st.lists(parts, max_size=3)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(deque),
        st.dictionaries(st.sampled_from("ab"), parts, max_size=2),
        st.dictionaries(keys, parts, max_size=2),
        st.dictionaries(st.sampled_from("ab"), parts, max_size=2).map(OrderedDict),
        st.dictionaries(st.sampled_from("ab"), parts, max_size=2).map(MappingProxyType),
        st.dictionaries(st.sampled_from("ab"), parts).map(lambda made: defaultdict(list, made)),
        st.builds(Point, st.integers(0, 3), parts),
        st.builds(Marked, st.integers(0, 3), parts),
        st.builds(Pair, st.integers(0, 3), parts),
        st.builds(Third, st.integers(0, 3), parts),
        st.builds(lambda part: Model(x=1.5, more={"a": part}), parts),
        st.builds(lambda part: Extended(x=2, more={"a": part}), parts),
        # What nobody checks where it is made.
        st.builds(lambda part: Model.model_construct(x=part), parts),
        st.builds(Point, parts),
    )


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.decimals(),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([None, UTC])),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.sampled_from([*Size, *Word, *Colour, Text("text"), Number(1), Counter("ab"), Loose()]),
    st.sampled_from(
        [PurePosixPath("a/b"), Fraction(1, 3), 1j, re.compile("a"), range(3), object()]
    ),
    st.sampled_from(["\udce9", 10**4000, Decimal("1.20"), -0.0, math.nan]),
    st.sets(st.sampled_from([1, 2.0, "a", Size.SMALL, Word.HEY, (1, 2), None])),
    st.frozensets(st.integers(0, 3)),
)
VALUES = st.recursive(LEAVES, of, max_leaves=6)

PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=2), parts),
    max_leaves=6,
)
PARTS = PLAIN | VALUES
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([True, Size.SMALL, Number(2)]))
TEXTS = st.one_of(st.text(max_size=3), st.sampled_from([Word.HEY, Text("text"), "\udce9"]))
POINTS = st.builds(Point, NUMBERS, PARTS) | st.builds(Marked, NUMBERS, PARTS)
MODELS = st.builds(lambda part: Model(x=1.5, more={"a": part}), PARTS) | st.builds(
    lambda number: Model.model_construct(x=number), NUMBERS
)
PAIRS = st.builds(Pair, NUMBERS, PARTS) | st.builds(Third, NUMBERS, PARTS)
MOMENTS = st.datetimes(
    timezones=st.sampled_from([None, UTC, ZoneInfo("Europe/Berlin")]), allow_imaginary=False
)
DECLARED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Any, PARTS),
    (object, PARTS),
    (int, NUMBERS),
    (float, NUMBERS),
    (int | float, NUMBERS),
    (str, TEXTS),
    (str | Word, TEXTS),
    (Decimal, st.decimals() | NUMBERS),
    (datetime, MOMENTS),
    (list[date], st.lists(MOMENTS | st.dates())),
    (Point, POINTS),
    (Point | Model, POINTS | MODELS),
    (list[Point], st.lists(POINTS, max_size=2)),
    (tuple[Point, ...], st.lists(POINTS, max_size=2).map(tuple)),
    (Model, MODELS),
    (list[Pair], st.lists(PAIRS, max_size=2)),
    (list[Size], st.lists(NUMBERS | st.sampled_from(Size), max_size=2)),
    (list[float], st.lists(NUMBERS, max_size=2)),
    (Sequence[str], st.lists(TEXTS, max_size=2) | st.lists(TEXTS, max_size=2).map(tuple)),
    (set[int], st.sets(NUMBERS, max_size=2)),
    (frozenset[Any], st.frozensets(TEXTS, max_size=2)),
    (dict[str, Any], st.dictionaries(TEXTS, PARTS, max_size=2)),
    (dict[float, Any], st.dictionaries(NUMBERS, PARTS, max_size=2)),
    (dict[Size, int], st.dictionaries(NUMBERS, NUMBERS, max_size=2)),
    (dict[tuple[int, int], int], st.dictionaries(st.tuples(NUMBERS, NUMBERS), st.integers())),
    (OrderedDict[str, Any], st.dictionaries(TEXTS, PARTS, max_size=2).map(OrderedDict)),
    (deque[int], st.lists(NUMBERS, max_size=2).map(deque)),
]
RETURNED = st.sampled_from(DECLARED).flatmap(
    lambda pair: st.tuples(st.just(pair[0]), pair[1] | VALUES)
)


def form(value: Any) -> Any:
    """Return a value as names of types, texts and lists of these, by which others are compared."""
    type_ = type(value)
    name = f"{type_.__module__}.{type_.__qualname__}"
    if isinstance(value, BaseModel):
        return [name, form(vars(value)), form(value.__pydantic_private__)]
    if isinstance(value, Point):
        return [name, form(vars(value))]
    if isinstance(value, Mapping):
        return [name, *([form(key), form(part)] for key, part in value.items())]
    if isinstance(value, (set, frozenset)):
        return [name, *sorted(map(form, value), key=repr)]
    if isinstance(value, (list, tuple, deque)):
        return [name, *map(form, value)]
    # Another object for the same moment; its zone has another name.
    return [name, value.isoformat() if isinstance(value, (datetime, time)) else repr(value)]


def alike(one: Any, other: Any) -> bool:
    """Tell whether forms are those of equal values; an int may be the float that was declared."""
    if not isinstance(one, list):
        return bool(one == other)
    if one[0] == "builtins.int" and other[0] == "builtins.float":
        return int(one[1]) == float(other[1])
    return len(one) == len(other) and all(map(alike, one, other))


def assert_kept_or_refused(cross: Callable[[Any], Any], value: Any) -> None:
    """Check that a value crosses as it is, or that a message says why it does not."""
    try:
        again = cross(value)
    except (RuntimeError, SnapshotError) as error:
        told = str(error)
        assert re.search("; (declare the type|define it|use |let the field name)", told)
        assert not re.search("pydantic_core|input_value|https:|validation error|object at 0x", told)
    else:
        assert alike(form(value), form(again)), (value, again)


NOWHERE: Any = None


def returned(type_: Any, value: Any) -> Any:
    """Return what arrives in the host of a value that an isolated handler returns."""
    answering = Tool[None, type_](  # type: ignore[valid-type]
        name="answer",
        description="Answer.",
        handler=lambda params, *, context: ToolResult.ok(value),
    )
    call = call_of(answering, None, ToolContext(session=Session()))
    done = run_handler(answering, call, Parent(NOWHERE))
    return result_of(answering, decoded(encoded(done))).value  # type: ignore[arg-type]


def given_to_handler(type_: Any, value: Any) -> Any:
    """Return what an isolated handler gets of params that the host has."""
    taking = Tool[type_, None](  # type: ignore[valid-type]
        name="take",
        description="Take.",
        handler=lambda params, *, context: ToolResult.ok(seen.append(params)),
    )
    seen: list[Any] = []
    call = decoded(encoded(call_of(taking, value, ToolContext(session=Session()))))
    assert isinstance(call, Call)
    run_handler(taking, call, Parent(NOWHERE))
    return seen[0]


def to_host(value: Any) -> Any:
    """Return what arrives of an item, event or argument that an isolated handler gives."""
    return HostValues().read(json.loads(json.dumps(HandlerValues().write(value))))


def to_handler(value: Any) -> Any:
    """Return what arrives of an item or a resource that the host gives."""
    return HandlerValues().read(json.loads(json.dumps(HostValues().write(value))))


@pytest.mark.slow
@given(RETURNED)
def test_a_result_arrives_as_it_was_returned_or_is_refused(case: tuple[Any, Any]) -> None:
    type_, value = case
    assert_kept_or_refused(lambda value: returned(type_, value), value)


@pytest.mark.slow
@given(
    st.sampled_from([(Point, POINTS), (Model, MODELS)]).flatmap(
        lambda pair: st.tuples(st.just(pair[0]), pair[1])
    )
)
def test_params_arrive_as_they_are_or_are_refused(case: tuple[Any, Any]) -> None:
    type_, value = case
    assert_kept_or_refused(lambda value: given_to_handler(type_, value), value)


@given(st.sampled_from([to_host, to_handler]), PARTS)
def test_an_item_an_event_and_a_resource_arrive_as_they_are_or_are_refused(
    cross: Callable[[Any], Any], value: Any
) -> None:
    assert_kept_or_refused(cross, value)


@pytest.mark.parametrize(
    ("type_", "value", "told"),
    [
        (list[Point], [Marked(1)], "value[0] (Marked) would come back as Point; declare the type"),
        (dict[str, Any], {"when": date(2026, 1, 1)}, "value.when (date) would come back as str"),
        (Any, [Point(1)], "value[0] (Point) would come back as dict"),
        (Any, {"size": Size.SMALL}, "value.size (Size) would come back as int"),
        (Any, {1: 2}, "value (key 1) (int) would come back as another"),
        (Any, {"a": [object()]}, "value.a[0] holds a value of type object, which has no JSON form"),
        (list[float], [1.0, math.nan], "value[1] holds NaN or Infinity, which JSON cannot say"),
        (
            list[Decimal],
            [Decimal("Infinity")],
            "value cannot be read from the JSON that it is written as ([0]: input should be a",
        ),
        (
            list[dict[tuple[int, int], int]],
            [{(1, 2): 3}],
            "value cannot be read from the JSON that it is written as ([0].1,2.[key]: input should",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_refusal_names_the_part_its_type_and_the_remedy(
    type_: Any, value: Any, told: str
) -> None:
    with pytest.raises(RuntimeError) as refused:
        returned(type_, value)

    text = str(refused.value)
    assert text.startswith(f"its result cannot be sent to its host: {told}")
    assert text.endswith("; declare the type that it has, or use plain data")


@dataclass(frozen=True)
class Named(ToolResult[Any]):
    """A result with more than a result has."""

    name: str = ""


def test_a_result_of_a_subclass_is_refused() -> None:
    naming = Tool[None, int](
        name="naming", description="Name.", handler=lambda params, *, context: Named("", 1)
    )
    call = call_of(naming, None, ToolContext(session=Session()))
    with pytest.raises(RuntimeError, match="returned Named, which would come back as ToolResult"):
        run_handler(naming, call, Parent(NOWHERE))


@pytest.mark.parametrize("kind", [LookupError, SystemExit, KeyboardInterrupt])
def test_an_exception_that_has_no_words_is_told_by_its_name(kind: type[BaseException]) -> None:
    class SpeechlessError(Exception):
        def __str__(self) -> str:
            raise kind

    def fail() -> Done:
        raise ExceptionGroup("two", [SpeechlessError(), ValueError("b")])

    done = outcome_of(fail)
    assert done.fault is not None
    assert str(raised(done.fault)) == ("ExceptionGroup: two (2 sub-exceptions): SpeechlessError; b")
    assert done.fault.trace

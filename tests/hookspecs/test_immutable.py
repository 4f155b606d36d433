"""A type is called immutable only if no value of it can change."""

import collections
import dataclasses
import enum
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, PrivateAttr, TypeAdapter

from toolstile_hookspecs._schema.core_schema import is_immutable
from toolstile_hookspecs.codecs import is_immutable_type


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    tags: tuple[str, ...] = ()
    KNOWN: ClassVar[list[str]] = []


@dataclass(frozen=True)
class Node:
    next: "Node | None" = None


@dataclass
class Thawed:
    x: int


@dataclass(frozen=True)
class Shelf:
    items: list[int]


@dataclass(frozen=True)
class ListAtHeart(list):
    x: int = 0


class Derived(Point):
    pass


class Pair(NamedTuple):
    a: int
    b: str


class ListPair(NamedTuple):
    a: list[int]


class LoosePair(Pair):
    pass


Untyped = collections.namedtuple("Untyped", "a b")  # noqa: PYI024 - without types


class Frozen(BaseModel, frozen=True):
    a: int
    b: tuple[Point, ...] = ()


class FrozenOpen(BaseModel, frozen=True, extra="allow"):
    a: int


class FrozenPrivate(BaseModel, frozen=True):
    a: int
    _cache: list[int] = PrivateAttr(default_factory=list)


class Model(BaseModel):
    a: int


class Sub(int):
    pass


def test_what_cannot_change_is_immutable(subtests):
    for kind in [
        *(int, str, None, type(None), Colour, Point, Node, Pair, Frozen),
        *(tuple[int, ...], tuple[()], frozenset[Point], int | None, Literal["a"]),
        *(Annotated[int, "text"], Annotated[int, ["unhashable"]], tuple[Annotated[str, {}], ...]),
    ]:
        with subtests.test(kind=kind):
            assert is_immutable(TypeAdapter(kind).core_schema)


def test_what_can_change_or_is_not_certain_is_not(subtests):
    for kind in [
        *(list, list[int], dict[str, int], set[int], bytearray, object, Any, tuple, Sub),
        *(Thawed, Shelf, ListAtHeart, Derived, ListPair, LoosePair, Untyped),
        *(FrozenOpen, FrozenPrivate, Model, tuple[list[int], ...], int | list[int]),
        *(frozenset[Any], Annotated[list[int], "text"]),
    ]:
        with subtests.test(kind=kind):
            assert not is_immutable_type(kind)


def _tuple(inner):
    return inner.map(lambda kind: (tuple[kind[0], ...], kind[1]))


def _union(inner):
    return inner.map(lambda kind: (kind[0] | None, kind[1]))


def _list(inner):
    return inner.map(lambda kind: (list[kind[0]], True))


def _record(inner):
    def make(drawn):
        kinds, frozen = drawn
        fields = [(f"f{number}", kind) for number, (kind, _) in enumerate(kinds)]
        made = dataclasses.make_dataclass("Made", fields, frozen=frozen)
        return made, not frozen or any(mutable for _, mutable in kinds)

    return st.tuples(st.lists(inner, max_size=3), st.booleans()).map(make)


leaves = st.sampled_from([(int, False), (str, False), (bytearray, True), (Thawed, True)])
kinds = st.recursive(
    leaves, lambda inner: st.one_of(_tuple(inner), _union(inner), _list(inner), _record(inner))
)


@pytest.mark.slow
@given(kinds)
def test_it_is_mutable_exactly_if_something_within_is(drawn):
    kind, mutable = drawn
    assert is_immutable_type(kind) is not mutable

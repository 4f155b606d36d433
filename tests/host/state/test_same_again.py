"""What comes back from JSON is what was written, or differs where it has to."""

import math
import re
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, Field, PrivateAttr, RootModel, SecretBytes, SecretStr
from typing_extensions import TypedDict

from toolstile.state.serialization import dumped, is_same, loaded


def again(item):
    return loaded(type(item), dumped(type(item), [item]))[0]


@dataclass(eq=False)
class Nothing:
    equals: int


@dataclass
class Keys:
    token: SecretStr | SecretBytes


class Account(BaseModel):
    keys: list[SecretStr]


class Chest(NamedTuple):
    keys: dict[str, SecretStr]
    more: Any = None


class Bag(RootModel[SecretStr]):
    pass


class Extra(TypedDict):
    key: SecretStr
    more: Any


@dataclass
class Mixed:
    names: dict[int | str, str] = field(default_factory=dict)
    pattern: re.Pattern[str] = re.compile("x")
    when: str | date = ""
    numbers: list[int] | tuple[int, ...] = ()
    extra: Extra | None = None


@dataclass
class Chain:
    keys: SecretStr
    next: "Chain | None" = None


@pytest.mark.parametrize(
    "item",
    [
        Keys(SecretStr("x")),
        Keys(SecretBytes(b"x")),
        Account(keys=[SecretStr("x")]),
        Chest({"a": SecretStr("x")}),
        Bag(SecretStr("x")),
        Chain(SecretStr(""), Chain(SecretStr("x"))),
        Mixed(extra={"key": SecretStr("x"), "more": 1}),
        Mixed(names={1: "a", "1": "b"}),
        Mixed(names={1: "a"}),
        Mixed(pattern=re.compile("x", re.IGNORECASE)),
        Mixed(when=date(2026, 1, 31)),
        Mixed(numbers=(1,)),
    ],
)
def test_what_reading_has_changed_is_another(item):
    assert not is_same(item, again(item))


class Holder(BaseModel, extra="allow"):
    value: Any = None
    names: Sequence[Nothing] = ()
    hidden: str = Field("", exclude=True)
    _private: int = PrivateAttr(0)


@dataclass
class Seeds:
    numbers: set[float]
    nothing: frozenset[Nothing]
    by_name: dict[str, Nothing]
    seed: InitVar[int] = 0
    node: "Seeds | None" = None


def with_private():
    holder = Holder()
    holder._private = 1
    return holder


@pytest.mark.parametrize(
    "item",
    [
        Nothing(1),
        Holder(value=(1, {2: (3, {4})}), more=date(2026, 1, 31)),
        Holder(value={1: date(2026, 1, 31)}),
        Holder(value=Keys(SecretStr("x"))),
        Holder(names=(Nothing(1), Nothing(2))),
        Holder(hidden="x"),
        with_private(),
        Chest({}, more=(1, 2)),
        Seeds({math.nan, 1.0}, frozenset(map(Nothing, range(9))), {"a": Nothing(1)}),
        [(1, 2), {3}],
    ],
)
def test_what_json_has_to_change_is_the_same(item):
    assert is_same(item, again(item))


@pytest.mark.parametrize(
    ("item", "read"),
    [
        (Holder(value={1: "a", "1": "b"}), Holder(value={"1": "b"})),
        (Holder(value=({1: "a", "1": "b"},)), Holder(value=[{"1": "b"}])),
        (Holder(value=(1, 2)), Holder(value=[2, 1])),
        (Holder(more=1), Holder(more=2)),
        (Nothing(1), Nothing(2)),
        ([math.nan], [0.0]),
        ([1, 2], [1]),
    ],
)
def test_what_holds_less_or_other_values_is_another(item, read):
    assert not is_same(item, read)

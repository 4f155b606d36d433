"""A value is compared in all its parts with what was read of its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, PrivateAttr

from toolstile_hookspecs.codecs import difference


@dataclass(eq=False)
class Plain:
    x: Any


class Model(BaseModel):
    x: Any
    _seen: int = PrivateAttr(0)

    @cached_property
    def twice(self) -> Any:
        return 2 * self.x


def seen(number: int) -> Model:
    model = Model(x=1)
    model._seen = number
    return model


@pytest.mark.parametrize(
    ("value", "again", "told"),
    [
        ({"a": [True]}, {"a": [1]}, "value.a[0] (bool) would come back as int"),
        ([1, 2], [1], "value[1] (int) would come back as another"),
        ({1: 2}, {True: 2}, "value (key 1) (int) would come back as bool"),
        ({(1, 2)}, {"1,2"}, "value{(1, 2)} (tuple) would come back as another"),
        (Plain([(1,)]), Plain([[1]]), "value.x[0] (tuple) would come back as list"),
        (seen(1), seen(2), "value._seen (int) would come back as another"),
        (Model(x=1), Model.model_construct(), "value.x (int) would come back as another"),
        (2**53 + 1, float(2**53 + 1), "value (int) would come back as float"),
    ],
    ids=str,
)
def test_the_first_part_that_differs_is_named(value: Any, again: Any, told: str) -> None:
    assert difference(value, again) == told


def test_what_stands_for_the_same_is_none() -> None:
    model, again = (Model(x=1) for _ in range(2))
    assert model.twice == 2
    # The hour that comes twice.
    later = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    read = datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=1)))
    assert later != read
    pairs = [(model, again), (later, read), ({"a": (1, float("nan"))}, {"a": (1.0, float("nan"))})]
    assert [difference(*pair) for pair in pairs] == [None] * len(pairs)

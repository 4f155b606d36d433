"""A later call is answered with the record of an earlier one, or the fault is told at once."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, PlainSerializer, computed_field

from toolstile_hookspecs import IdempotencyConfig, Status, tool

pytestmark = pytest.mark.slow


class Square(BaseModel, extra="forbid"):
    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


class Open(BaseModel, extra="allow"):
    size: int


class Priced(BaseModel):
    price: Annotated[int, PlainSerializer(lambda price: f"{price} EUR")]


@pytest.mark.parametrize("value", [Square(side=3), Open(size=1, colour="red")])
@pytest.mark.parametrize("nest", [False, True])
def test_a_hit_of_a_value_that_shows_more_than_its_fields_gives_all_of_it(bench, value, nest):
    made: list[Any] = []

    def make() -> Any:
        made.append([value] if nest else value)
        return made[-1]

    make.__annotations__["return"] = list[value.__class__] if nest else value.__class__
    bench.open(tool(description="Make.", idempotency=IdempotencyConfig())(make))
    first, second = bench.call("make"), bench.call("make")

    assert len(made) == 1
    assert second.event.replayed
    assert second.result == first.result
    assert (second.text, second.data) == (first.text, first.data)


def test_calls_are_told_apart_by_what_they_were_given_alone(bench):
    areas = iter(range(10))

    class Drifting(BaseModel):
        sides: set[int]

        @computed_field
        @property
        def area(self) -> int:
            return next(areas)

    def make(given: Any) -> int:
        return 1

    make.__annotations__["given"] = Drifting
    bench.open(tool(description="Make.", idempotency=IdempotencyConfig())(make))
    bench.call("make", given={"sides": [1, 2]})
    assert bench.call("make", given={"sides": [2, 1]}).event.replayed


def test_a_value_that_no_later_call_could_be_answered_with_is_told_at_once(bench):
    @tool(idempotency=IdempotencyConfig())
    def price() -> Priced:
        """Give a price."""
        return Priced(price=3)

    bench.open(price)
    outcome = bench.call("price")
    assert outcome.status is Status.ERROR
    assert outcome.text == (
        "Internal error in price: the JSON of its value is not what its type reads (price: input "
        'should be a valid integer, got "3 EUR"). This requires human intervention: serializers '
        "of the type have to write what it reads."
    )
    assert bench.states() == ["unknown"]

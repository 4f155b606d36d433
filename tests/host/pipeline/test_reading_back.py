"""Params go to approvers and through plugins as JSON, and come back as they were."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Json, PlainSerializer, computed_field

from toolstile_hookspecs import Status, Tool, ToolCall, hookimpl, tool


class Square(BaseModel, extra="forbid"):
    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


class Priced(BaseModel):
    price: Annotated[int, PlainSerializer(lambda price: f"{price} EUR")]


class Parser:
    """Parses as the host does."""

    @hookimpl
    def toolstile_parse(self, tool: Tool[Any, Any], call: ToolCall) -> Any:
        return tool.parse(call.arguments)


@tool(requires_confirmation=True)
def draw(square: Square, sizes: Json[list[int]]) -> int:
    """Draw a square."""
    return square.area + sum(sizes)


@tool
def pay(priced: Priced) -> int:
    """Pay a price."""
    return priced.price


@pytest.mark.parametrize("plugins", [(), (Parser(),)])
def test_what_is_approved_is_what_was_given(yard: Any, plugins: tuple[object, ...]) -> None:
    asked: list[Any] = []
    yard.open(draw, plugins=plugins, approver=lambda request: asked.append(request) or True)
    outcome = yard.call("draw", square={"side": 3}, sizes="[1, 2]")

    assert (outcome.status, outcome.result.value) == (Status.SUCCEEDED, 12)
    assert asked[0].params.square == Square(side=3)
    assert asked[0].arguments == '{"square":{"side":3},"sizes":"[1,2]"}'


def test_a_serializer_that_writes_otherwise_does_no_harm_where_nobody_reads(yard: Any) -> None:
    yard.open(pay)
    assert yard.call("pay", priced={"price": 3}).result.value == 3


TOLD = (
    "Internal error in pay: the JSON of its params is not what its type reads (priced.price: input "
    'should be a valid integer, got "3 EUR"). This requires human intervention: serializers of '
    "the type have to write what it reads."
)


def test_a_serializer_that_writes_otherwise_is_told_before_a_person_is_asked(yard: Any) -> None:
    asked: list[Any] = []
    confirmed = tool(name="pay", description="Pay.", requires_confirmation=True)(pay_price)
    yard.open(confirmed, approver=asked.append)
    outcome = yard.call("pay", priced={"price": 3})

    assert (outcome.status, outcome.text) == (Status.ERROR, TOLD)
    assert asked == []


def pay_price(priced: Priced) -> int:
    return priced.price


def test_a_model_is_not_told_to_mend_what_a_serializer_wrote(yard: Any) -> None:
    yard.open(pay, plugins=(Parser(),))
    outcome = yard.call("pay", priced={"price": 3})
    assert (outcome.status, outcome.text) == (Status.ERROR, TOLD)
    assert yard.call("pay", priced={"price": "x"}).status is Status.INVALID

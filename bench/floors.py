"""The cost of a call without any host: pydantic in, the plain function, pydantic out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NotRequired

from measuring import Block, Probe, timed
from pydantic import TypeAdapter
from typing_extensions import TypedDict
from workload import (
    ADD_ARGUMENTS,
    ORDER_ARGUMENTS,
    Address,
    Item,
    OrderResult,
    Priority,
    add,
    create_order,
)


class AddParams(TypedDict):
    a: int
    b: int


class OrderParams(TypedDict):
    customer_id: str
    email: str
    address: Address
    items: list[Item]
    priority: Priority
    express: bool
    notes: NotRequired[str | None]
    tags: NotRequired[list[str] | None]


@contextmanager
def _bare_add() -> Iterator[Block]:
    params, result = TypeAdapter(AddParams), TypeAdapter(int)
    yield timed(
        lambda: result.dump_json(
            add(**params.validate_json(ADD_ARGUMENTS, strict=True, extra="forbid"))
        )
    )


@contextmanager
def _bare_order() -> Iterator[Block]:
    params, result = TypeAdapter(OrderParams), TypeAdapter(OrderResult)
    yield timed(
        lambda: result.dump_json(
            create_order(**params.validate_json(ORDER_ARGUMENTS, strict=True, extra="forbid"))
        )
    )


FLOOR_OF_ADD = Probe("add: floor", _bare_add)
FLOOR_OF_ORDER = Probe("create_order: floor", _bare_order)

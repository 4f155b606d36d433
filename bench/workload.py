"""The two tools that every dispatch is measured with, and their arguments as JSON text.

`add` shows what the host costs, `create_order` what a realistic call does: eight params (a
nested object, a list of seven objects, an enumeration) in 598 bytes, and a result of 1,045 bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, Literal

from pydantic import BaseModel

Priority = Literal["low", "normal", "high"]


class Address(BaseModel):
    street: str
    city: str
    zip: str
    country: str = "FI"


class Item(BaseModel):
    sku: str
    qty: int
    price: float


class Line(BaseModel):
    sku: str
    qty: int
    subtotal: float
    note: str


class OrderResult(BaseModel):
    order_id: str
    customer_id: str
    total: float
    express: bool
    priority: str
    ship_to: str
    lines: list[Line]
    tags: list[str]


ADD_ARGUMENTS: Final = '{"a": 17, "b": 25}'
ORDER_ARGUMENTS: Final = json.dumps(
    {
        "customer_id": "cus_1234567890",
        "email": "jane.doe@example.com",
        "address": {
            "street": "Mannerheimintie 1",
            "city": "Helsinki",
            "zip": "00100",
            "country": "FI",
        },
        "items": [
            {"sku": f"SKU-{index:04d}", "qty": index + 1, "price": 9.95 + index}
            for index in range(7)
        ],
        "priority": "high",
        "express": True,
        "notes": "leave at the door",
        "tags": ["gift", "fragile"],
    }
)

NOTE: Final = "lorem ipsum dolor sit amet, consectetur adipiscing elit sed do"


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def add_async(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def create_order(  # noqa: PLR0913, PLR0917 - a realistic tool has this many params
    customer_id: str,
    email: str,  # noqa: ARG001 - read and checked, like any other
    address: Address,
    items: list[Item],
    priority: Priority,
    express: bool,  # noqa: FBT001 - one of the tool's params
    notes: str | None = None,  # noqa: ARG001 - see `create_order`
    tags: list[str] | None = None,
) -> OrderResult:
    """Create an order."""
    return _build_order(customer_id, address, items, priority, tags or (), express=express)


async def create_order_async(  # noqa: PLR0913, PLR0917 - see `create_order`
    customer_id: str,
    email: str,  # noqa: ARG001 - see `create_order`
    address: Address,
    items: list[Item],
    priority: Priority,
    express: bool,  # noqa: FBT001 - see `create_order`
    notes: str | None = None,  # noqa: ARG001 - see `create_order`
    tags: list[str] | None = None,
) -> OrderResult:
    """Create an order."""
    return _build_order(customer_id, address, items, priority, tags or (), express=express)


def _build_order(  # noqa: PLR0913 - see `create_order`
    customer_id: str,
    address: Address,
    items: Sequence[Item],
    priority: Priority,
    tags: Sequence[str],
    *,
    express: bool,
) -> OrderResult:
    lines = [
        Line.model_construct(sku=item.sku, qty=item.qty, subtotal=item.qty * item.price, note=NOTE)
        for item in items
    ]
    return OrderResult.model_construct(
        order_id="ord_000123",
        customer_id=customer_id,
        total=sum(line.subtotal for line in lines),
        express=express,
        priority=priority,
        ship_to=f"{address.street}, {address.zip} {address.city}",
        lines=lines,
        tags=list(tags),
    )

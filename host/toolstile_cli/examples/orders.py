"""A small order desk: a whole plugin in a single file.

    toolstile run --example

Its state is a slice of the session, changed by events through a pure reducer. Because
every call works on a branch of the session, a call that fails leaves no trace there.
A tool that changes nothing else is `contained`; the tool that calls the carrier is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolstile_hookspecs import (
    MarkdownSection,
    PolicyDecision,
    SessionProtocol,
    Tool,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)

PRICES = {"teapot": 34, "mug": 9, "kettle": 58}
"""The price of each product, in euros."""
SMALL = 100
"""Orders of up to so many euros need no credit check."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order of a customer."""

    number: int
    customer: str
    product: str
    quantity: int
    address: str = ""
    status: str = "open"

    def render(self) -> str:
        """Return the text for the model."""
        goods = f"{self.quantity} x {self.product}"
        return f"#{self.number} {self.customer}: {goods}, {self.status}"


@dataclass(frozen=True, slots=True)
class Desk:
    """All orders, and the customers whose credit was checked."""

    orders: tuple[Order, ...] = ()
    trusted: frozenset[str] = frozenset()

    def order(self, number: int) -> Order | None:
        """Return the order of that number, or None."""
        return next((order for order in self.orders if order.number == number), None)


@dataclass(frozen=True, slots=True)
class Orders:
    """A list of orders."""

    orders: tuple[Order, ...]

    def render(self) -> str:
        """Return the text for the model."""
        return "; ".join(order.render() for order in self.orders) or "There are no orders."


@dataclass(frozen=True, slots=True)
class CreditChecked:
    """The event that a customer turned out to be good for larger orders."""

    customer: str

    def render(self) -> str:
        """Return the text for the model."""
        return f"{self.customer} is good for orders of any size."


def keep_order(desks: Sequence[Desk], order: Order) -> Sequence[Desk]:
    """Reduce an order to the desk that has it, in place of an older one of its number."""
    desk = desks[-1] if desks else Desk()
    others = tuple(other for other in desk.orders if other.number != order.number)
    return [replace(desk, orders=(*others, order))]


def keep_check(desks: Sequence[Desk], event: CreditChecked) -> Sequence[Desk]:
    """Reduce a credit check to the desk that knows of it."""
    desk = desks[-1] if desks else Desk()
    return [replace(desk, trusted=desk.trusted | {event.customer})]


def set_up(session: SessionProtocol) -> None:
    """Let the results of the tools change the desk."""
    session[Desk].register(Order, keep_order)
    session[Desk].register(CreditChecked, keep_check)


def desk_of(context: ToolContext) -> Desk:
    """Return the desk as the call finds it."""
    return context.session[Desk].latest() or Desk()


@tool(category="read", consequence="low")
def list_orders(*, context: ToolContext) -> Orders:
    """List all orders."""
    return Orders(desk_of(context).orders)


@tool(category="write", contained=True)
def place_order(
    customer: str, product: str, quantity: int = 1, *, context: ToolContext
) -> ToolResult[Order]:
    """Place an order; products are teapot, mug and kettle.

    Args:
        customer: Who orders.
        product: The product.
        quantity: How many.
        context: The call's.
    """
    if product not in PRICES:
        return ToolResult.error(
            f"There is no product {product!r}. Choose one of {', '.join(PRICES)}, then retry."
        )
    number = len(desk_of(context).orders) + 1
    return ToolResult.ok(Order(number, customer, product, quantity))


@tool(category="read")
def check_credit(customer: str) -> CreditChecked:
    """Check whether a customer is good for larger orders.

    Args:
        customer: Whose credit.
    """
    return CreditChecked(customer)


@tool(category="write", contained=True)
def change_address(number: int, address: str, *, context: ToolContext) -> ToolResult[Order]:
    """Say where an order is to be sent.

    Args:
        number: The order.
        address: Where to.
        context: The call's.
    """
    order = desk_of(context).order(number)
    if order is None:
        return ToolResult.error(f"There is no order #{number}. Use list_orders, then retry.")
    return ToolResult.ok(replace(order, address=address), message=f"To be sent to {address}.")


@tool(category="side_effect", consequence="high")
def ship_order(number: int, *, context: ToolContext) -> ToolResult[Order]:
    """Hand an order over to the carrier.

    Args:
        number: The order.
        context: The call's.
    """
    order = desk_of(context).order(number)
    if order is None:
        return ToolResult.error(f"There is no order #{number}. Use list_orders, then retry.")
    shipped = replace(order, status="shipped")
    context.session.dispatch(shipped)
    if not order.address:
        return ToolResult.error(
            f"The carrier sent #{number} back: it has no address. Use change_address, then retry."
        )
    return ToolResult.ok(shipped)


@hookimpl
def toolstile_sections() -> list[MarkdownSection]:
    """Offer the tools, with the guidance that goes with them."""
    return [
        MarkdownSection(
            key="orders",
            title="Orders",
            template="Check a customer's credit before you place a large order.",
            tools=[list_orders, place_order, check_credit, change_address, ship_order],
            on_session=set_up,
        )
    ]


@hookimpl
def toolstile_check(
    tool: Tool[Any, Any], params: Any, context: ToolContext
) -> PolicyDecision | None:
    """Refuse large orders of customers without a credit check."""
    if tool.name != place_order.name or params.product not in PRICES:
        return None
    total = PRICES[params.product] * params.quantity
    if total <= SMALL or params.customer in desk_of(context).trusted:
        return None
    return PolicyDecision.deny(
        f"{total} euros is a large order, and the credit of {params.customer} was not checked. "
        "Call check_credit first, then retry."
    )

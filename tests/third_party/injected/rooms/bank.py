"""The room of the bank account."""

from __future__ import annotations

from dataclasses import replace

from toolstile_hookspecs import ToolContext, ToolValidationError, tool

from .records import Payee, Payment, StandingOrder, Transaction
from .state import position, rooms_of

TAGS = ("bank",)


@tool(category="read", tags=TAGS)
def get_balance(*, context: ToolContext) -> float:
    """Tell the balance of the account in euros."""
    rooms = rooms_of(context)
    rooms.looked_at.append("balance")
    return rooms.balance


@tool(category="read", tags=TAGS)
def list_transactions(party: str = "", *, context: ToolContext) -> list[Transaction]:
    """List the transactions, the oldest first; only those with a party where one is named."""
    return [
        transaction
        for transaction in rooms_of(context).transactions
        if party.lower() in transaction.party.lower()
    ]


@tool(category="read", tags=TAGS)
def list_payees(*, context: ToolContext) -> list[Payee]:
    """List the saved recipients of payments."""
    return list(rooms_of(context).payees)


@tool(category="side_effect", consequence="high", tags=TAGS)
def pay(recipient: str, iban: str, amount: float, subject: str, *, context: ToolContext) -> str:
    """Pay an amount in euros to an account."""
    rooms = rooms_of(context)
    if not 0 < amount <= rooms.balance:
        raise ToolValidationError("The amount is more than the balance, or not positive.")
    rooms.balance -= amount
    rooms.payments.append(Payment(recipient, iban, amount, subject))
    return f"Paid {amount:.2f} euros to {recipient}."


@tool(category="write", tags=TAGS)
def save_payee(name: str, iban: str, *, context: ToolContext) -> str:
    """Save a recipient of payments; one of the same name is replaced."""
    payees = rooms_of(context).payees
    payees[:] = [payee for payee in payees if payee.name != name]
    payees.append(Payee(name, iban))
    return f"{name} is saved."


@tool(category="read", tags=TAGS)
def list_standing_orders(*, context: ToolContext) -> list[StandingOrder]:
    """List the standing orders: payments that are made every month."""
    return list(rooms_of(context).standing_orders)


@tool(category="side_effect", consequence="high", tags=TAGS)
def create_standing_order(
    recipient: str, iban: str, amount: float, subject: str, *, context: ToolContext
) -> str:
    """Pay an amount in euros to an account every month."""
    rooms = rooms_of(context)
    made = StandingOrder(rooms.new_id("o"), recipient, iban, amount, subject)
    rooms.standing_orders.append(made)
    return f"Created as {made.id}."


@tool(category="side_effect", consequence="high", tags=TAGS)
def change_standing_order(
    order_id: str,
    amount: float | None = None,
    iban: str | None = None,
    *,
    context: ToolContext,
) -> str:
    """Change the amount or the account of a standing order."""
    orders = rooms_of(context).standing_orders
    at = position(orders, order_id)
    order = orders[at]
    orders[at] = replace(
        order,
        amount=order.amount if amount is None else amount,
        iban=order.iban if iban is None else iban,
    )
    return "Changed."


TOOLS = (
    get_balance,
    list_transactions,
    list_payees,
    pay,
    save_payee,
    list_standing_orders,
    create_standing_order,
    change_standing_order,
)

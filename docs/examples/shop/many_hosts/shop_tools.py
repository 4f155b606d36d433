"""The tools of a shop: a payment that runs on a worker, and an entry in the customer's session."""

import os
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from toolstile import tool
from toolstile_hookspecs import IdempotencyConfig, Reconciled, ToolContext


@dataclass(frozen=True)
class Bought:
    order: str
    euros: int


def ask_bank(sql: str, *values: object) -> list[Any]:
    """Ask the bank, which is no part of the shop and does not know of calls."""
    bank = sqlite3.connect(os.environ["SHOP_BANK"], timeout=30)
    with closing(bank), bank:
        return bank.execute(sql, values).fetchall()


def find_payment(params: Any, key: str, context: ToolContext) -> Reconciled:  # noqa: ARG001 - the contract's
    """Look whether a payment that nobody knows of has reached the bank."""
    found = ask_bank("SELECT euros FROM payment WHERE shop_order = ?", params.order)
    return Reconciled.happened(found[0][0]) if found else Reconciled.did_not()


def once_for_each_order(**more: Any) -> IdempotencyConfig:
    return IdempotencyConfig(strategy="params", param_keys=("order",), scope="global", **more)


@tool(category="write", tags=("bank",), idempotency=once_for_each_order(reconcile=find_payment))
def pay(order: str, euros: int) -> int:
    """Pay an order."""
    time.sleep(0.05)
    ask_bank("INSERT INTO payment VALUES (?, ?)", order, euros)
    time.sleep(0.05)
    return euros


@tool(category="write", idempotency=once_for_each_order())
def enter(order: str, euros: int, *, context: ToolContext) -> int:
    """Enter a paid order into the session of its customer."""
    context.session[Bought].append(Bought(order, euros))
    return euros

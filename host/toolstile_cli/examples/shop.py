"""The shop of `toolstile demo`: its tools, and its bank and its payer, which are processes.

Orders are rows of a SQLite table, the stock is a file of the workspace, and the bank books each
charge as one line of `bank.log`.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import sys
import threading
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from toolstile import Host, Settings
from toolstile_hookspecs import (
    Binding,
    IdempotencyConfig,
    Reconciled,
    ToolCall,
    ToolContext,
    ToolError,
    tool,
)
from toolstile_plugins.ledger import effect_key

PAYMENT: Final = {"order": 1, "euros": 40}


class Orders:
    """The table of orders; each call is a savepoint, which is kept or undone with the call."""

    def __init__(self, file: Path) -> None:
        self.rows = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self.close = self.rows.close

    def begin(self) -> str:
        """Begin a call."""
        self.rows.execute("SAVEPOINT call")
        return "call"

    def commit(self, savepoint: str) -> None:
        """Keep the changes of a call."""
        self.rows.execute(f"RELEASE {savepoint}")

    def rollback(self, savepoint: str) -> None:
        """Undo the changes of a call."""
        self.rows.execute(f"ROLLBACK TO {savepoint}")
        self.commit(savepoint)


class Bank(NamedTuple):
    """The bank, known by its port."""

    port: int

    def ask(self, *words: object) -> str:
        """Return the answer to `charge REFERENCE EUROS` or `find REFERENCE`."""
        with socket.create_connection(("127.0.0.1", self.port)) as bank:
            bank.sendall(" ".join(map(str, words)).encode() + b"\n")
            return bank.makefile(encoding="utf-8").read()


def digest(content: str) -> str:
    """Return a short digest."""
    return sha256(content.encode()).hexdigest()[:12]


def digests(stock: str, rows: sqlite3.Connection) -> str:
    """Return the digests of the stock and of the table of orders."""
    orders = repr(rows.execute("SELECT * FROM orders").fetchall())
    return f"stock.txt {digest(stock)}, orders {digest(orders)}"


@tool(category="write", contained=True)
def place_order(product: Literal["mug", "kettle"], quantity: int, *, context: ToolContext) -> str:
    """Place an order."""
    rows = context.resources.get(Orders).rows
    rows.execute("INSERT INTO orders VALUES (?, ?, 'open')", (product, quantity))
    return f"Ordered {quantity} x {product}."


@tool(category="write", contained=True)
def ship_order(order: int, *, context: ToolContext) -> str:
    """Ship an order: take the goods from the stock and mark the order as shipped."""
    files, rows = context.filesystem, context.resources.get(Orders).rows
    if files is None:
        raise ToolError("There is no workspace. Load the plugin vfs.")
    files.write("stock.txt", "mug 20\nkettle 4\n")
    rows.execute("UPDATE orders SET state = 'shipped' WHERE rowid = ?", (order,))
    changed = digests(files.read("stock.txt"), rows)
    raise ToolError(f"The carrier refused order {order}. In this call: {changed}. Retry later.")


def find_charge(params: Any, key: str, context: ToolContext) -> Reconciled:  # noqa: ARG001
    """Ask the bank about a payment whose process ended before it recorded the answer."""
    charge = context.resources.get(Bank).ask("find", digest(key))
    return Reconciled.happened(f"Paid, {charge}.") if charge else Reconciled.did_not()


ONCE: Final = IdempotencyConfig(scope="global", reconcile=find_charge)


@tool(category="side_effect", idempotency=ONCE)
def pay(order: int, euros: int, *, context: ToolContext) -> str:
    """Pay for an order."""
    key = effect_key(context) or f"order {order}"
    return f"Paid, {context.resources.get(Bank).ask('charge', digest(key), euros)}."


def open_shop(folder: Path) -> None:
    """Write the files and the first order of a shop into an empty folder."""
    (folder / "workspace/notes").mkdir(parents=True)
    (folder / "workspace/notes/old.md").write_text("mug 7 euros\n", encoding="utf-8")
    (folder / "workspace/stock.txt").write_text("mug 20\nkettle 5\n", encoding="utf-8")
    (folder / "bank.log").touch()
    orders = Orders(folder / "shop.db")
    orders.rows.execute("CREATE TABLE orders (product, quantity, state)")
    orders.rows.execute("INSERT INTO orders VALUES ('kettle', 1, 'open')")
    orders.close()


def shop_host(folder: Path, block: Sequence[str], port: int = 0) -> Host:
    """Return the host of the shop in a folder, whatever else is configured or installed."""
    files = {"vfs": {"root": folder / "workspace"}, "ledger": {"path": folder / "ledger.db"}}
    orders = Binding(Orders, lambda _: Orders(folder / "shop.db"))
    return Host(
        settings=Settings(approve_diff=True, plugins=files),
        discover=("ledger", "vfs"),
        block=block,
        tools=[place_order, ship_order, pay],
        resources={Orders: orders, Bank: Bank(port)},
    )


def payer(folder: Path, port: str, *block: str) -> None:
    """Make the payment, and print its outcome as JSON."""
    with shop_host(folder, block, int(port)) as host, host.executor() as tools:
        sys.stdout.write(json.dumps(tools.dispatch(ToolCall("pay", PAYMENT)).envelope()))


def bank(folder: Path) -> None:
    """Print the port, and serve until standard input is closed.

    The bank refuses no second charge. Its first answer never comes, so that the payer can be killed
    after the charge and before the answer.
    """
    log = folder / "bank.log"
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as server:
        sys.stdout.write(f"{server.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            with server.accept()[0] as client, client.makefile(encoding="utf-8") as lines:
                verb, reference, *euros = lines.readline().split()
                charges = log.read_text(encoding="utf-8").splitlines()
                answer = next((charge for charge in charges if reference in charge), "")
                if verb == "charge":
                    answer = f"charge {len(charges) + 1}, {euros[0]} euros, reference {reference}"
                    log.write_text("\n".join([*charges, answer, ""]), encoding="utf-8")
                if verb == "charge" and not charges:
                    lines.read()  # returns when the payer is dead
                client.sendall(answer.encode())


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])

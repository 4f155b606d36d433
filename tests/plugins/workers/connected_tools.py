"""Tools of the tests whose handlers need their host."""

from __future__ import annotations

import os
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from toolstile_hookspecs import (
    Filesystem,
    IdempotencyConfig,
    Tool,
    ToolContext,
    ToolResult,
    tool,
)

from .remote_tools import note


@dataclass(frozen=True)
class Entry:
    """An item of a slice."""

    order: int
    process: int


@dataclass(frozen=True)
class Tariff:
    """A resource that may travel."""

    price: int
    process: int


def files_of(context: ToolContext) -> Filesystem:
    assert context.filesystem is not None
    return context.filesystem


def make_tariff(_: object) -> Tariff:
    return Tariff(7, os.getpid())


@tool(idempotency=IdempotencyConfig(scope="global"))
def charge_booked(url: str, *, context: ToolContext) -> None:
    """Charge, and tell the exception of the client in the words of an application."""
    files_of(context)
    try:
        urllib.request.urlopen(url, b"{}", timeout=0.3)
    except OSError as error:
        raise LookupError("The payment failed.") from error


@tool(category="write", timeout=60)
def book(order: int, fails: bool = False, *, context: ToolContext) -> int:
    """Book an order in the session and in a file."""
    entries = context.session[Entry]
    entries.append(Entry(order, os.getpid()))
    files_of(context).write(f"{order}.txt", f"{len(entries.all())} booked")
    if fails:
        raise LookupError(f"Order {order} is gone.")
    return len(entries.all())


@tool(
    category="write",
    idempotency=IdempotencyConfig(scope="global", strategy="params", param_keys=("order",)),
    timeout=60,
)
def pay_booked(order: int, seconds: float = 0, *, context: ToolContext) -> int:
    """Pay an order and book it."""
    context.session[Entry].append(Entry(order, os.getpid()))
    note(f"paid {order}")
    time.sleep(seconds)
    context.session[Entry].append(Entry(order, 0))
    return order


@tool(
    category="write",
    idempotency=IdempotencyConfig(
        scope="global", strategy="params", param_keys=("order",), on_unknown="retry"
    ),
    timeout=60,
)
def mark_booked(order: int, *, context: ToolContext) -> int:
    """Mark an order as booked, which may be done twice."""
    context.session[Entry].append(Entry(order, os.getpid()))
    return order


@tool(category="read", timeout=60)
def look_long(seconds: float, *, context: ToolContext) -> str:
    """Look at the session for long."""
    note("looks")
    time.sleep(seconds)
    return context.session.id


@tool
async def relay(name: str, order: int, *, context: ToolContext) -> ToolResult[str]:
    """Have another tool called."""
    context.progress(1, 2, "half")
    told = await context.acall(name, {"order": order})
    return ToolResult.ok(told.text, message=f"relayed by {os.getpid()}: {told.text}")


@tool
def local(order: int) -> str:
    """Run in the host."""
    return f"{order} in {os.getpid()}"


@tool
def beat(*, context: ToolContext) -> None:
    """Say twice that it lives."""
    context.beat()
    context.beat()


@tool
def log_in(password: SecretStr) -> SecretStr:
    """Return a token."""
    return SecretStr(f"token of {password.get_secret_value()}")


@tool
def tariff(*, context: ToolContext) -> str:
    """Use a resource that was made here."""
    found = context.resources.get(Tariff)
    return f"{found.price} {found.process == os.getpid()}"


@tool
def directory(*, context: ToolContext) -> str:
    """Write to the real directory of the workspace."""
    with files_of(context).exclusive_path() as path:
        Path(path, "real.txt").write_text("real", encoding="utf-8")
    return files_of(context).read("real.txt")


@tool(timeout=60)
def large(*, context: ToolContext) -> str:
    """Return more than can be sent."""
    return "x" * (129 * 2**20)


@tool
def trace_id(*, context: ToolContext) -> str:
    """Return the trace that the handler runs in."""
    from opentelemetry import trace

    return f"{trace.get_current_span().get_span_context().trace_id:032x}"


@tool
def peek(path: str, *, context: ToolContext) -> str:
    """Read a file in the host."""
    return files_of(context).read(path) if files_of(context).exists(path) else "no file"


@dataclass(frozen=True)
class Sum:
    """Params of a tool that is no function."""

    left: int
    right: int


def add(params: Sum, *, context: ToolContext) -> ToolResult[int]:
    """Add within a session."""
    return ToolResult.ok(params.left + params.right, message=context.session.id)


ADD = Tool[Sum, int](name="add", description="Add.", handler=add)

ON_WORKERS = [
    ADD, beat, book, charge_booked, directory, large, log_in, look_long, mark_booked,
    pay_booked, relay, tariff, trace_id,
]  # fmt: skip

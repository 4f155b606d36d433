"""Tools that workers of the tests run."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

from toolstile_hookspecs import (
    IdempotencyConfig,
    ToolError,
    ToolResult,
    ToolValidationError,
    tool,
)

NOTES = "TOOLSTILE_TEST_NOTES"
SPANS = "TOOLSTILE_TEST_SPANS"


def note(text: str) -> None:
    """Add a line to the file of the test."""
    with Path(os.environ[NOTES]).open("a", encoding="utf-8") as file:
        file.write(f"{text} {os.getpid()}\n")


@tool(category="read")
def where() -> int:
    """Return the process that the handler runs in."""
    return os.getpid()


@tool
async def greet(name: str) -> ToolResult[str]:
    """Greet."""
    return ToolResult.ok(f"Hello {name}", message="Said.", exclude_value_from_context=True)


@tool
def fail(how: str) -> ToolResult[str]:
    """Fail in a way."""
    if how == "returned":
        return ToolResult.error("No such order. Check it, then retry.")
    if how == "advised":
        raise LookupError("It is gone.") from ToolError("No till.", for_operator="Mend /srv/till.")
    raise ToolValidationError("Too much.") if how == "contract" else LookupError("It is gone.")


@tool(
    category="write",
    idempotency=IdempotencyConfig(scope="global", strategy="params", param_keys=("order",)),
    timeout=60,
)
def pay(order: int, seconds: float = 0) -> int:
    """Pay."""
    note(f"paid {order}")
    time.sleep(seconds)
    return order


class CardError(ToolError):
    """A kind of failure that only this module has."""


@tool(idempotency=IdempotencyConfig(scope="global"))
def charge(url: str, declines: bool = False) -> None:
    """Charge, and tell the exception of the client in the words of an application."""
    try:
        urllib.request.urlopen(url, b"{}", timeout=0.3)
    except OSError as error:
        if declines:
            raise CardError("Not charged. Ask for another card.") from error
        raise LookupError("The payment failed.") from error


@tool(category="write", timeout=1)
def linger() -> None:
    """Take too long."""
    note("lingers")
    time.sleep(60)


@tool(category="write", version="2.0.0")
def versioned() -> None:
    """Have a version."""


@tool
def current_trace() -> str:
    """Return the trace that the handler runs in."""
    from opentelemetry import trace

    return f"{trace.get_current_span().get_span_context().trace_id:032x}"


@cache
def tracer() -> Any:
    """Return a tracer of this process, which writes spans to a file."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    # For as long as the process lives.
    file = Path(os.environ[SPANS]).open("a", encoding="utf-8")  # noqa: SIM115
    lines = ConsoleSpanExporter(out=file, formatter=lambda span: f"{span.to_json(indent=None)}\n")
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(lines))
    trace.set_tracer_provider(provider)
    return provider.get_tracer(__name__)


@tool
def traced(name: str) -> str:
    """Make a span, and return the addresses of the machine that it is made on."""
    with tracer().start_as_current_span(f"greets {name}"):
        command = ["hostname", "--all-ip-addresses"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@tool
def lost() -> object:
    """Return a value that is not JSON."""
    note("lost")
    return object()


@tool
def die() -> None:
    """End the process of the handler."""
    note("died")
    os._exit(3)


TOOLS = [where, greet, fail, pay, charge, linger, current_trace, traced, lost, die]

"""A wait that a cancellation ends is a cancelled call, however the handler hears of it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from toolstile_hookspecs import (
    Binding,
    CallClosed,
    Cancellation,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)


@dataclass
class Printer:
    """Something that one call at a time has."""

    def begin(self) -> None:
        return None

    def commit(self, savepoint: Any) -> None:
        return None

    def rollback(self, savepoint: Any) -> None:
        return None


def test_a_closed_call_that_was_cancelled_says_so(yard: Any) -> None:
    @tool
    async def close(*, context: ToolContext) -> ToolResult[None]:
        """Be cancelled, and hear of it first."""
        context.abort_signal.cancel()
        msg = "The call was cancelled while it waited for Printer."
        raise CallClosed(msg)

    yard.open(close)

    outcome = yard.dispatch(ToolCall("close", cancellation=Cancellation()))

    assert (outcome.status, outcome.text) == (Status.CANCELLED, "Request was cancelled")


def test_a_closed_call_that_was_not_cancelled_is_an_error(yard: Any) -> None:
    @tool
    def close() -> ToolResult[None]:
        """Pass on what another call's branch raised."""
        msg = "The call is over."
        raise CallClosed(msg)

    yard.open(close)

    assert yard.dispatch(ToolCall("close", cancellation=Cancellation())).status is Status.ERROR


def test_a_cancelled_wait_for_a_resource_is_a_cancelled_call(yard: Any) -> None:
    held, go = threading.Event(), threading.Event()
    stop = Cancellation()

    @tool
    def hold(*, context: ToolContext) -> ToolResult[None]:
        """Have the printer for as long as the test wants."""
        context.resources.get(Printer)
        held.set()
        go.wait(60)
        return ToolResult.ok()

    @tool
    def want(*, context: ToolContext) -> ToolResult[None]:
        """Wait for the printer."""
        threading.Thread(target=stop.cancel).start()
        context.resources.get(Printer)
        return ToolResult.ok()

    tools = yard.open(hold, want, resources=(Binding.instance(Printer, Printer()),))
    holder = threading.Thread(target=lambda: tools.dispatch(ToolCall("hold")), daemon=True)
    holder.start()
    assert held.wait(60)

    outcome = yard.dispatch(ToolCall("want", cancellation=stop))
    go.set()
    holder.join(60)

    assert (outcome.status, outcome.text) == (Status.CANCELLED, "Request was cancelled")

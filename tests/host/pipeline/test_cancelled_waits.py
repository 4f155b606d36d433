"""A wait that a cancellation ends is a cancelled call, however the handler hears of it."""

from __future__ import annotations

import asyncio
import signal
import threading
from dataclasses import dataclass
from typing import Any

from toolstile.drivers.async_driver import _Bell
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


def test_a_signal_handler_that_cancels_just_when_a_wait_begins_is_heard(
    yard: Any, monkeypatch: Any
) -> None:
    cancellation, ended = Cancellation(), list[bool]()

    @tool
    async def linger() -> ToolResult[None]:
        """Take long."""
        loop = asyncio.get_running_loop()
        made, future = loop.create_future, loop.create_future()

        def interrupted() -> asyncio.Future[Any]:
            monkeypatch.undo()
            signal.raise_signal(signal.SIGUSR1)
            return made()

        # The next future is that of the wait for this handler.
        monkeypatch.setattr(loop, "create_future", interrupted)
        loop.call_later(2, lambda: future.done() or future.set_result(None))
        await future
        ended.append(True)
        return ToolResult.ok(None, message="Done.")

    former = signal.signal(signal.SIGUSR1, lambda *_: cancellation.cancel())
    try:
        executor = yard.open(linger)
        call = ToolCall("linger", {}, cancellation=cancellation)
        outcome = asyncio.run(executor.adispatch(call))
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert outcome.status is Status.CANCELLED
    assert not ended


def test_a_bell_that_a_signal_handler_rings_while_it_rings_is_rung_once() -> None:
    class Future(asyncio.Future[None]):
        def done(self) -> bool:
            was = super().done()
            if not was:
                signal.raise_signal(signal.SIGUSR1)
            return was

    async def ring() -> None:
        loop = asyncio.get_running_loop()
        bell = _Bell(loop)
        bell._future = future = Future(loop=loop)
        rung = iter([bell.ring])
        signal.signal(signal.SIGUSR1, lambda *_: next(rung, bool)())
        bell.ring()
        assert asyncio.Future.done(future)

    former = signal.getsignal(signal.SIGUSR1)
    try:
        asyncio.run(ring())
    finally:
        signal.signal(signal.SIGUSR1, former)

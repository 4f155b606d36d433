"""The process of handlers: imports tools, then runs one handler at a time for its worker.

Its worker sends a `Load`, then for each call a `Take` with the params or the address of the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Generator
from typing import Any, cast

from toolstile_hookspecs import EffectUnknownError, Tool, ToolError, ToolResult, ToolValidationError
from toolstile_hookspecs.services.dispatcher import DispatchOutcome, DispatchState
from toolstile_hookspecs.support.network_errors import was_sent
from toolstile_hookspecs.support.text import noted_for_operator
from toolstile_plugins.isolation.child import run_handler
from toolstile_plugins.isolation.child_process import flush_streams, outcome_of, parent_socket, tell
from toolstile_plugins.isolation.messages import (
    MAX_ENCLOSED,
    MAX_MESSAGE,
    Call,
    Ended,
    Load,
    Ready,
    SocketChannel,
    Take,
    text_of,
    written,
)
from toolstile_plugins.isolation.proxies import Parent
from toolstile_plugins.workers.connections import HostAddress
from toolstile_plugins.workers.handlers import tools_in

_UNREACHED = "{tool} was not run: its worker cannot reach its host. Retry later."
_ADDRESS = (
    "The worker cannot reach the host at {place} ({reason}). For workers on other machines, set "
    "address in [plugins.workers] of the host."
)
_UNWANTED = "{tool} was not run: its host does not wait for its worker any more. Retry."
_TOLD = "Its handler has ended, and only its host knows its outcome."
_HOST_LOST = "Its host was lost while it ran."


def main() -> None:
    """Run handlers until the other end of the socket is closed."""
    with contextlib.closing(SocketChannel(parent_socket(), MAX_ENCLOSED)) as worker:
        load = cast("Load", worker.receive())
        sys.path[:] = load.path
        tools = tools_in([importlib.import_module(name) for name in load.modules])
        worker.send(Ready())

        def begins() -> bool:
            """Ask the worker, immediately before the handler begins, whether it may."""
            worker.send(Ready())
            return cast("Ready", worker.receive()).go

        while True:
            try:
                take = cast("Take", worker.receive())
            except EOFError:
                return
            tool = tools[take.tool]
            if take.connection is None:
                outcome = _run_alone(tool, take.params, take.traceparent, begins)
            else:
                address = HostAddress(*json.loads(take.connection))
                outcome = _run_connected(tool, address, take.traceparent, begins)
            flush_streams()
            worker.send(Ended(list(outcome)))


# --- handlers that need their host


def _run_connected(
    tool: Tool[Any, Any], address: HostAddress, traceparent: str | None, begins: Callable[[], bool]
) -> DispatchOutcome:
    """Run a handler that uses its host, and send the outcome to the host only."""
    try:
        channel = address.connect()
    except OSError as error:
        return DispatchOutcome(
            DispatchState.NOT_RUN,
            _UNREACHED.format(tool=tool.name),
            for_operator=_ADDRESS.format(place=address.place, reason=error),
        )
    with contextlib.closing(channel):
        try:
            call = cast("Call", channel.receive())
            channel.be_patient()
        except (EOFError, OSError):
            return DispatchOutcome(DispatchState.NOT_RUN, _UNWANTED.format(tool=tool.name))
        if not begins():
            return DispatchOutcome(DispatchState.NOT_RUN)
        try:
            with _traced(traceparent):
                done = outcome_of(lambda: run_handler(tool, call, Parent(channel)))
            tell(channel, done)
        except (EOFError, OSError):
            return DispatchOutcome(DispatchState.UNKNOWN, _HOST_LOST)
    return DispatchOutcome(DispatchState.UNKNOWN, _TOLD)


# --- handlers that run without their host


def _run_alone(
    tool: Tool[Any, Any], params: str, traceparent: str | None, begins: Callable[[], bool]
) -> DispatchOutcome:
    """Run a handler, and return its outcome, which the worker records."""
    try:
        given = tool.params_codec.copy(params)
    except ToolValidationError as error:
        return DispatchOutcome(DispatchState.NOT_RUN, f"{tool.name} was not run: {error}")
    if not begins():
        return DispatchOutcome(DispatchState.NOT_RUN)
    try:
        with _traced(traceparent):
            value = tool.signature.invoke(given, context=None)
            if inspect.isawaitable(value):
                value = asyncio.run(_awaited(value))
    except Exception as error:  # noqa: BLE001 - raised again in the host
        with contextlib.suppress(Exception):
            # The handler may have closed the stream.
            traceback.print_exc()
        is_unknown = isinstance(error, EffectUnknownError)
        state = DispatchState.UNKNOWN if is_unknown else DispatchState.FAILURE
        name = ToolError.__name__ if isinstance(error, ToolError) else type(error).__name__
        advice = noted_for_operator(error)
        sent = was_sent(error)
        return DispatchOutcome(state, text_of(error), error=name, sent=sent, for_operator=advice)
    return _returned(tool, value)


async def _awaited(value: Any) -> Any:
    return await value


def _returned(tool: Tool[Any, Any], value: Any) -> DispatchOutcome:
    is_result = issubclass(type(value), ToolResult)
    result: ToolResult[Any] = value if is_result else ToolResult.ok(value)
    if not result.success:
        return DispatchOutcome(DispatchState.FAILURE, result.message)
    try:
        value = result.value
        encoded = None if value is None else written(tool.result_codec, value, "value")
    except ValueError as error:
        return _unsent(f"cannot be sent to its host: {error}")
    if (size := len(encoded or "") + len(result.message)) > MAX_MESSAGE:
        return _unsent(f"takes {size:,} characters, and {MAX_MESSAGE:,} are the most")
    excluded = result.exclude_value_from_context
    return DispatchOutcome(DispatchState.RESULT, result.message, encoded, excluded)


def _unsent(reason: str) -> DispatchOutcome:
    text = f"Its handler has returned, but its result {reason}."
    return DispatchOutcome(DispatchState.UNKNOWN, text)


# --- around both


@contextlib.contextmanager
def _traced(traceparent: str | None) -> Generator[None]:
    """Make the caller's span current within the block, then export the spans."""
    if traceparent is None:
        yield
        return
    try:
        from opentelemetry import context, propagate, trace
    except ImportError:
        yield
        return
    token = context.attach(propagate.extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)
        with contextlib.suppress(AttributeError):
            # The process may be killed before it exports by itself.
            trace.get_tracer_provider().force_flush()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()

"""The process of handlers: it imports tools, and runs one handler at a time, as it is asked.

Messages are JSON, one a line: the modules, then for each call its params, the word to go on, and
the outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from typing import Any, BinaryIO

from toolstile_hookspecs import EffectUnknownError, Tool, ToolResult, ToolValidationError
from toolstile_hookspecs.codecs import why_unwritable
from toolstile_hookspecs.services.dispatcher import DispatchOutcome, DispatchState
from toolstile_plugins.workers.tool_modules import tools_in


def main() -> None:
    """Run handlers until the other end of the socket is closed."""
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        # Programs that a handler starts must not keep the socket open.
        connection.set_inheritable(False)
        threading.Thread(target=_end_with_parent, args=(connection,), daemon=True).start()
        with connection.makefile("rb") as lines:
            hello = _receive(lines)
            sys.path[:] = hello["path"]
            tools = tools_in([importlib.import_module(name) for name in hello["modules"]])
            _send(connection, {"up": True})
            while request := _receive(lines):
                _send(connection, {"outcome": list(_attempt(tools, request, connection, lines))})


def _end_with_parent(connection: socket.socket) -> None:
    """End, with all that was started here, when the other end of the socket is gone."""
    poll = select.poll()
    poll.register(connection.fileno(), 0)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


def _receive(lines: BinaryIO) -> Any:
    line = lines.readline()
    return json.loads(line) if line else None


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _attempt(
    tools: dict[str, Tool[Any, Any]], request: Any, connection: socket.socket, lines: BinaryIO
) -> DispatchOutcome:
    tool = tools[request["tool"]]
    try:
        params = tool.params_codec.copy(request["params"])
    except ToolValidationError as error:
        return DispatchOutcome(DispatchState.NOT_RUN, f"{tool.name} was not run: {error}")
    _send(connection, {"ready": True})
    if not _receive(lines)["go"]:
        return DispatchOutcome(DispatchState.NOT_RUN)
    try:
        with _traced(request["traceparent"]):
            value = _run(tool, params)
    except Exception as error:  # noqa: BLE001 - raised where the call was dispatched
        traceback.print_exc()
        return _failure(error)
    finally:
        for stream in (sys.stdout, sys.stderr):
            # The handler may have closed it, or nobody may read it any more.
            with contextlib.suppress(Exception):
                stream.flush()
    try:
        return _outcome(tool, value)
    except Exception as error:  # noqa: BLE001 - codecs run anybody's code
        told = why_unwritable(error)
        text = f"Its handler has returned, but its result cannot be written as JSON: {told}."
        return DispatchOutcome(DispatchState.UNKNOWN, text)


def _run(tool: Tool[Any, Any], params: Any) -> Any:
    # It takes no context: see `why_not`.
    value = tool.signature.invoke(params, context=None)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value


def _failure(error: Exception) -> DispatchOutcome:
    """Return what is told of an exception: its name and text."""
    is_unknown = isinstance(error, EffectUnknownError)
    state = DispatchState.UNKNOWN if is_unknown else DispatchState.FAILURE
    return DispatchOutcome(state, str(error), error=type(error).__name__)


def _outcome(tool: Tool[Any, Any], value: Any) -> DispatchOutcome:
    is_result = issubclass(type(value), ToolResult)
    result: ToolResult[Any] = value if is_result else ToolResult.ok(value)
    if not result.success:
        return DispatchOutcome(DispatchState.FAILURE, result.message)
    encoded = None if result.value is None else tool.result_codec.encode(result.value).decode()
    excluded = result.exclude_value_from_context
    return DispatchOutcome(DispatchState.RESULT, result.message, encoded, excluded)


def _traced(traceparent: str | None) -> contextlib.AbstractContextManager[None]:
    """Let the span of the caller be current."""
    if traceparent is None:
        return contextlib.nullcontext()
    from toolstile_plugins.workers.trace_context import attached

    return attached(traceparent)


if __name__ == "__main__":
    main()

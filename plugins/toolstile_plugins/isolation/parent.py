"""The host's side of an isolated handler: starts the process, serves it and kills it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from types import NoneType
from typing import Any

from toolstile_hookspecs import (
    FunctionTool,
    ProcessDied,
    SnapshotError,
    Tool,
    ToolContext,
    ToolResult,
)
from toolstile_hookspecs.codecs import NOT_READ_BACK, Codec, place_of, why_unwritable
from toolstile_plugins.isolation.child_process import ChildProcess
from toolstile_plugins.isolation.messages import (
    MAIN,
    Call,
    Done,
    Message,
    MessageError,
    SocketChannel,
    Start,
)
from toolstile_plugins.isolation.services import serve
from toolstile_plugins.isolation.values import HostValues, raised, result_codec, written


class IsolatedHandler:
    """Runs a tool's handler in a separate process."""

    def __init__(self, tool: Tool[Any, Any]) -> None:
        self._tool = tool

    def __call__(self, params: Any, *, context: ToolContext) -> Any:
        """Run the handler in a process, and return its result.

        Raises:
            BaseException: The exception of the handler.
            ProcessDied: The process ends without a result.
            RuntimeError: The params or the result cannot be sent.
        """
        codec = result_codec(self._tool)
        if isinstance(codec, Codec) and (reason := codec.why_not_read_back()):
            raise RuntimeError(f"its result {NOT_READ_BACK}, to cross from its process: {reason}")
        process = ChildProcess(f"{__package__}.child")
        context.on_abandoned(process.kill)
        start = _start_message(self._tool, params, context)
        try:
            with contextlib.closing(_Pipe(process)) as pipe:
                try:
                    pipe.send(start)
                except MessageError as error:
                    raise RuntimeError(_UNSENT.format(error)) from error
                return result_of(self._tool, serve(pipe, context))
        except MessageError as error:
            # `ProcessDied`, because the handler may have had its effect.
            raise ProcessDied(f"a message of its process cannot be read here ({error})") from error
        finally:
            process.kill()


def _start_message(tool: Tool[Any, Any], params: Any, context: ToolContext) -> Start:
    function: Any = getattr(tool, "function", tool.handler)
    if function.__module__ == "__main__":
        sys.modules[MAIN] = sys.modules["__main__"]
    signature = tool.signature
    return Start(
        module=function.__module__,
        file=getattr(sys.modules[function.__module__], "__file__", None),
        name=function.__qualname__,
        path=list(sys.path),
        python_path=os.environ.get("PYTHONPATH"),
        tool=tool.name,
        decorated=isinstance(tool, FunctionTool),
        types=[
            place_of(dict if tool.params_schema is not None else signature.params or NoneType),
            place_of(Any if tool.result_schema is not None else signature.result or NoneType),
        ],
        call=call_of(tool, params, context),
    )


def call_of(tool: Tool[Any, Any], params: Any, context: ToolContext) -> Call:
    """Return a call to send; raises `RuntimeError` if the params cannot be sent."""
    deadline, auth, control = context.deadline, context.auth, context.control
    fields = {
        "deadline": None if deadline is None else deadline.remaining(),
        "run_context": context.run_context,
        "principal": context.principal,
        "request": tuple(context.request),
        "tool_call": context.tool_call,
    }
    values = HostValues()
    try:
        arguments = written(tool.params_codec, params, "params")
        crossed = values.write(fields, "context")
    except (ValueError, SnapshotError) as error:
        raise RuntimeError(_UNSENT.format(error)) from error
    return Call(
        arguments,
        crossed | values.crossing({} if auth is None else {"auth": auth.reveal()}),
        context.session.id,
        has_heartbeat=context.heartbeat is not None,
        crossings=[] if control is None else [each.decode() for each in control.crossings()],
    )


def result_of(tool: Tool[Any, Any], done: Done) -> Any:
    """Return the result of a handler, or raise its exception; `MessageError` if it does not fit."""
    if done.fault is not None:
        raise raised(done.fault)
    value: Any = None
    if done.value is not None:
        try:
            value = result_codec(tool).copy(done.value)
        except ValueError as error:
            raise MessageError(f"its value does not fit: {why_unwritable(error)}") from error
    if done.message is None:
        return value
    return ToolResult(done.message, value, done.success, exclude_value_from_context=done.excluded)


class _Pipe(SocketChannel):
    """The channel to a process; raises `ProcessDied` if the process ends."""

    def __init__(self, process: ChildProcess) -> None:
        super().__init__(process.start())
        self._process = process

    def send(self, message: Message) -> None:
        with self._until_death():
            super().send(message)

    def receive(self) -> Message:
        with self._until_death():
            return super().receive()

    @contextlib.contextmanager
    def _until_death(self) -> Generator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            raise ProcessDied(self._process.death()) from error


_UNSENT = "its params cannot be sent to a separate process ({})"

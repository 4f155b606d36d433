"""The host's side of a handler in another process: starts it, answers its requests, kills it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager
from types import NoneType
from typing import Any, Final, Self

from toolstile_hookspecs import (
    FunctionTool,
    ProcessDied,
    ResourceError,
    SnapshotError,
    StateError,
    Tool,
    ToolContext,
    ToolResult,
)
from toolstile_hookspecs.codecs import NOT_READ_BACK, Codec, place_of, why_unwritable
from toolstile_hookspecs.services.dispatcher import PortableProviders
from toolstile_plugins.isolation.child_process import ChildProcess
from toolstile_plugins.isolation.messages import (
    MAIN,
    Answer,
    Ask,
    Call,
    Done,
    HostValues,
    Message,
    MessageError,
    SocketChannel,
    Start,
    fault_of,
    raised,
    result_codec,
    written,
)

METHODS: Final = {
    "control": "call beat progress set_attribute check_exclusive inflight",
    "session": "dispatch snapshot restore reset",
    "dispatcher": "publish",
    "slice": "latest all append replace",
    "resources": "contains is_portable check copy",
    "files": (
        "read read_bytes write write_bytes exists stat is_readonly list mkdir link chmod delete "
        "copy move glob search enter_exclusive_path leave_exclusive_path"
    ),
}
"""The methods that a handler can call, by object."""


def serve(channel: SocketChannel, context: ToolContext, *, is_here: bool = True) -> Done:
    """Answer the requests of a handler until the handler has ended; return its result.

    If `is_here`, the handler runs on this machine, and can use its paths. `EOFError`: the channel
    ends before the handler. `MessageError`: a message is not a request.
    """
    with Services(context, is_here=is_here) as services:
        while not isinstance(message := channel.receive(), Done):
            if not isinstance(message, Ask):
                raise MessageError(f"a message says {message.says!r}, which the host says itself")
            try:
                channel.send(services.answer(message))
            except MessageError as error:
                channel.send(_unsent(message, error))
    return message


def _unsent(ask: Ask, error: Exception) -> Answer:
    told = f"the result of {ask.method} cannot be sent into an isolated process ({error})"
    return Answer(ask.number, fault=fault_of(ResourceError(told)))


class Services:
    """Answers the requests of one handler; a method for each object of `METHODS`."""

    def __init__(self, context: ToolContext, *, is_here: bool) -> None:
        self._context = context
        self._is_here = is_here
        self._values = HostValues()
        self._snapshots: list[Any] = []
        self._exclusive: list[AbstractContextManager[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        while self._exclusive:
            self._exclusive.pop().__exit__(None, None, None)

    def answer(self, ask: Ask) -> Answer:
        """Return the answer to a request; exceptions become faults."""
        if ask.method not in METHODS.get(ask.target, "").split():
            asked = f"A handler elsewhere cannot ask for {ask.target}.{ask.method}."
            return Answer(ask.number, fault=fault_of(StateError(asked)))
        try:
            serve = getattr(self, f"_{ask.target}")
            args = map(self._values.read, ask.args)
            value = serve(ask.method, *args, **self._values.read(ask.kwargs))
        except BaseException as error:  # noqa: BLE001 - raised in the handler
            return Answer(ask.number, fault=fault_of(error))
        try:
            return Answer(ask.number, self._values.write(value, "it"))
        except Exception as error:  # noqa: BLE001 - writing runs foreign code
            return _unsent(ask, error)

    def _control(self, method: str, *args: Any) -> Any:
        if method == "call":
            return self._context.call(*args)
        if method == "beat":
            return self._context.beat()
        if method == "inflight":
            return tuple(self._context.inflight)
        return getattr(self._context.control, method)(*args)

    def _session(self, method: str, *args: Any, **kwargs: Any) -> Any:
        session = self._context.session
        if method == "snapshot":
            self._snapshots.append(session.snapshot(**kwargs))
            return len(self._snapshots) - 1
        if method == "restore":
            return session.restore(self._snapshots[args[0]])
        return getattr(session, method)(*args, **kwargs)

    def _dispatcher(self, method: str, *args: Any) -> Any:
        return getattr(self._context.session.dispatcher, method)(*args)

    def _slice(self, method: str, kind: type[Any], *args: Any) -> Any:
        view = self._context.session[kind]
        if method == "replace":
            return view.replace(*args[0])
        return tuple(view.all()) if method == "all" else getattr(view, method)(*args)

    def _resources(self, method: str, kind: type[Any]) -> Any:
        resources = self._context.resources
        if method == "contains":
            return kind in resources
        if method == "is_portable":
            return resources.is_portable(kind)
        if method == "check" or not resources.is_portable(kind):
            resources.get(kind)  # raises if the type is not bound
        if method == "check":
            return None
        if not resources.is_portable(kind):
            raise ResourceError(
                f"{kind.__qualname__} cannot go into an isolated process; declare its binding "
                "portable=True, or use isolation='thread'."
            )
        if isinstance(resources, PortableProviders):
            place = resources.portable_provider(kind)
            if place is not None:
                return {"provider": place}
        return {"value": resources.get(kind)}

    def _files(self, method: str, *args: Any, **kwargs: Any) -> Any:
        files: Any = self._context.filesystem
        if method == "enter_exclusive_path":
            if not self._is_here:
                raise StateError(
                    "The directory of the workspace is on the machine of the host, and the handler "
                    "runs on another machine. Read and write its files instead."
                )
            self._exclusive.append(files.exclusive_path())
            return self._exclusive[-1].__enter__()
        if method == "leave_exclusive_path":
            return self._exclusive.pop().__exit__(None, None, None)
        value = getattr(files, method)(*args, **kwargs)
        return list(value) if method in {"list", "glob", "search"} else value


class IsolatedHandler:
    """Runs a tool's handler in a separate process."""

    def __init__(self, tool: Tool[Any, Any]) -> None:
        self._tool = tool

    def __call__(self, params: Any, *, context: ToolContext) -> Any:
        """Run the handler in a process, and return its result or raise its exception.

        `ProcessDied`: the process ends without a result. `RuntimeError`: the params or the result
        cannot be sent.
        """
        codec = result_codec(self._tool)
        if isinstance(codec, Codec) and (reason := codec.why_not_read_back()):
            raise RuntimeError(f"its result {NOT_READ_BACK}, to cross from its process: {reason}")
        process = ChildProcess(f"{__package__}.child")
        context.on_abandoned(process.kill)
        tool = self._tool
        function: Any = getattr(tool, "function", tool.handler)
        if function.__module__ == "__main__":
            sys.modules[MAIN] = sys.modules["__main__"]
        signature = tool.signature
        start = Start(
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


def call_of(tool: Tool[Any, Any], params: Any, context: ToolContext) -> Call:
    """Return a call to send; raises `RuntimeError` if the params cannot be sent."""
    deadline, auth, control = context.deadline, context.auth, context.control
    fields = {
        "deadline": None if deadline is None else deadline.remaining(),
        "run_context": context.run_context,
        "principal": context.principal,
        "agent": context.agent,
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

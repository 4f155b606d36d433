"""The host's side of an isolated handler: it starts the process, serves it and kills it."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from typing import Any

from toolstile_hookspecs import (
    Deadline,
    FunctionTool,
    ProcessDied,
    ResourceError,
    Tool,
    ToolContext,
)
from toolstile_plugins.isolation.messages import (
    MAIN,
    Answer,
    Ask,
    Done,
    Rest,
    Start,
    portable_call,
    portable_error,
    portable_outcome,
    travels,
)


class IsolatedHandler:
    """Runs a tool's handler in a process that leads a group of its own.

    Args:
        tool: The tool.
    """

    def __init__(self, tool: Tool[Any, Any]) -> None:
        self._tool = tool

    def __call__(self, params: Any, *, context: ToolContext) -> Any:
        """Run the handler there and return what it returns.

        Raises:
            BaseException: What the handler raises.
            ProcessDied: When its process ends without a result.
            RuntimeError: When the params cannot go there, or the result cannot come back.
        """
        process = _Process()
        context.on_abandoned(process.kill)
        start = _start_message(self._tool, params, context)
        try:
            with contextlib.closing(_Pipe(process.start(), process)) as pipe:
                pipe.send(start)
                return _finish(_serve(pipe, _Services(context)))
        finally:
            process.kill()


def _start_message(tool: Tool[Any, Any], params: Any, context: ToolContext) -> Start:
    decorated = isinstance(tool, FunctionTool)
    function: Any = getattr(tool, "function", tool.handler)
    if function.__module__ == "__main__":
        sys.modules[MAIN] = sys.modules["__main__"]
    rest = Rest(
        params=None if decorated else params,
        fields=_fields(context),
        session_id=context.session.id,
        has_heartbeat=context.heartbeat is not None,
    )
    try:
        pickled = pickle.dumps(rest)
    except Exception as error:
        msg = f"its params cannot be sent to a process of its own ({error}); use plain types"
        raise RuntimeError(msg) from error
    return Start(
        module=function.__module__,
        file=getattr(sys.modules[function.__module__], "__file__", None),
        name=function.__qualname__,
        path=tuple(sys.path),
        python_path=os.environ.get("PYTHONPATH"),
        tool=tool.name,
        arguments=tool.params_codec.encode(params) if decorated else None,
        rest=pickled,
        crossings=() if context.control is None else tuple(context.control.crossings()),
    )


def _serve(pipe: _Pipe, services: _Services) -> Done:
    with services:
        while True:
            message = pipe.receive()
            if isinstance(message, Done):
                return message
            pipe.answer(services.answer(message))


class _Process:
    """The process of one handler: killed once, with its group, and always reaped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._ended = threading.Event()

    def start(self) -> Connection:
        """Start it; returns the pipe to it.

        Raises:
            RuntimeError: When it was killed before it began.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs, self._lock:
            if self._killed:
                raise RuntimeError(_NO_RESULT)
            descriptor = theirs.fileno()
            # -P: what lies in the working directory must not stand in for our own modules.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-P", "-m", "toolstile_plugins.isolation.child", str(descriptor)],
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=2,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            threading.Thread(
                target=self._reap, args=(self._process,), name="toolstile-reaper", daemon=True
            ).start()
            return Connection(ours.detach())

    def kill(self) -> None:
        """Kill it and all it started; waits for nothing."""
        with self._lock:
            self._killed = True
            if self._process is not None and not self._ended.is_set():
                _kill_group(self._process.pid)

    def death(self) -> str:
        """Say how it ended without a result."""
        process = self._process
        if process is None or self._killed or not self._ended.wait(timeout=5):
            return _NO_RESULT
        status = process.returncode
        how = f"exit status {status}"
        if status < 0:
            how = f"killed by signal {-status}"
        return f"its process ended without a result ({how})"

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        # It is killed before it is reaped, as its number may then be given again; and processes
        # that it left behind would keep the pipe open.
        _await_end(process)
        with self._lock:
            _kill_group(process.pid)
            process.wait()
            self._ended.set()


class _Pipe:
    """The pipe to a process, which may end at any moment."""

    def __init__(self, connection: Connection, process: _Process) -> None:
        self._connection = connection
        self._process = process

    def send(self, message: Start) -> None:
        with self._until_death():
            self._connection.send(message)

    def receive(self) -> Ask | Done:
        with self._until_death():
            received = self._connection.recv_bytes()
        try:
            message: Ask | Done = pickle.loads(received)  # noqa: S301 - sent by our own process
        except Exception as error:
            msg = f"what its process sent cannot be read here ({error})"
            raise RuntimeError(msg) from error
        return message

    def answer(self, answer: Answer) -> None:
        try:
            pickled = pickle.dumps(answer)
        except Exception as error:  # noqa: BLE001 - pickling runs anybody's code
            msg = f"it cannot be sent into an isolated process ({error})"
            pickled = pickle.dumps(Answer(answer.number, None, ResourceError(msg)))
        with self._until_death():
            self._connection.send_bytes(pickled)

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def _until_death(self) -> Generator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            raise ProcessDied(self._process.death()) from error


def _finish(done: Done) -> Any:
    if done.error is None:
        return done.value
    if done.trace:
        done.error.add_note(done.trace)
    raise done.error


def _fields(context: ToolContext) -> dict[str, Any]:
    deadline = context.deadline
    return {
        "deadline": None if deadline is None else Deadline.after(deadline.remaining()),
        "run_context": context.run_context,
        "principal": context.principal,
        "request": tuple(context.request),
        "auth": context.auth if travels(context.auth) else None,
        "tool_call": portable_call(context.tool_call),
    }


def _await_end(process: subprocess.Popen[bytes]) -> None:
    if not hasattr(os, "waitid"):
        # On macOS before Python 3.13. What it left behind keeps its number from being given again.
        process.wait()
        return
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def _kill_group(number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(number, signal.SIGKILL)


_NO_RESULT = "its process was ended before it gave a result"


class _Services:
    """The requests of an isolated handler, carried out on the call's own branch."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._snapshots: list[Any] = []
        self._exclusive: list[AbstractContextManager[str]] = []

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        while self._exclusive:
            self._exclusive.pop().__exit__(None, None, None)

    def answer(self, ask: Ask) -> Answer:
        try:
            serve = getattr(self, f"_{ask.target}")
            return Answer(ask.number, serve(ask.method, *ask.args, **(ask.kwargs or {})))
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            return Answer(ask.number, None, portable_error(error))

    def _control(self, method: str, *args: Any) -> Any:
        if method == "call":
            return portable_outcome(self._context.call(*args))
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
        value = getattr(self._context.session[kind], method)(*args)
        return tuple(value) if method == "all" else value

    def _resources(self, method: str, kind: type[Any]) -> Any:
        resources = self._context.resources
        if method == "contains":
            return kind in resources
        if method == "is_portable":
            return resources.is_portable(kind)
        if method == "check":
            resources.get(kind)
            return None
        resource = resources.get(kind)
        if not resources.is_portable(kind):
            raise ResourceError(
                f"{kind.__qualname__} cannot go into an isolated process; declare its binding "
                "portable=True, or use isolation='thread'."
            )
        return resource

    def _files(self, method: str, *args: Any, **kwargs: Any) -> Any:
        files: Any = self._context.filesystem
        if method == "enter_exclusive_path":
            self._exclusive.append(files.exclusive_path())
            return self._exclusive[-1].__enter__()
        if method == "leave_exclusive_path":
            return self._exclusive.pop().__exit__(None, None, None)
        value = getattr(files, method)(*args, **kwargs)
        return list(value) if method in {"list", "glob", "search"} else value

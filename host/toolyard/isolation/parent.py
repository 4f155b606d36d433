"""The call's side of an isolated handler: starts the process, serves it, kills it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from toolyard.isolation.messages import (
    Answer,
    Ask,
    Done,
    Start,
    portable_error,
    portable_outcome,
)
from toolyard_hookspecs import FunctionTool, ResourceError, ToolContext

if TYPE_CHECKING:
    from toolyard.pipeline.call_run import CallRun

log = logging.getLogger("toolyard.isolation")
TRAVELLING = ("deadline", "run_context", "user_id", "tool_call")


class IsolatedHandler:
    """Runs a tool's handler in a process that leads a group of its own.

    Args:
        run: The call; when it is abandoned, the process is killed with all it started.
    """

    def __init__(self, run: CallRun) -> None:
        self._run = run
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._killed = False
        run.when_abandoned = self._kill

    def __call__(self, params: Any, *, context: ToolContext) -> Any:
        """Run the handler there and return what it returns.

        Raises:
            BaseException: What the handler raises.
            RuntimeError: When its process ends without a result.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._start(theirs.fileno())
            theirs.close()
            pipe = Connection(ours.detach())
        try:
            pipe.send(self._message(params, context))
            return self._serve(pipe, _Services(self._run, context))
        except (EOFError, OSError) as error:
            raise RuntimeError(self._death()) from error
        finally:
            pipe.close()
            self._kill()

    def _start(self, descriptor: int) -> None:
        with self._lock:
            if self._killed:
                return
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "toolyard.isolation.child", str(descriptor)],
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=2,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    def _message(self, params: Any, context: ToolContext) -> Start:
        plan = self._run.plan
        assert plan is not None  # noqa: S101 - a handler runs for a tool
        tool = plan.tool
        function: Any = tool.function if isinstance(tool, FunctionTool) else tool.handler
        module = sys.modules[function.__module__]
        fields = {name: getattr(context, name) for name in TRAVELLING}
        fields["tool_call"] = _plain(context)
        return Start(
            module=function.__module__,
            file=getattr(module, "__file__", None),
            name=function.__qualname__,
            path=tuple(sys.path),
            params=params,
            fields=fields,
            session_id=context.session.id,
        )

    def _serve(self, pipe: Connection, services: _Services) -> Any:
        with services:
            while True:
                message: Any = pipe.recv()
                if isinstance(message, Done):
                    return self._finish(message)
                pipe.send(services.answer(message))

    def _finish(self, done: Done) -> Any:
        if done.error is None:
            return done.value
        if done.trace:
            done.error.add_note(done.trace)
        raise done.error

    def _kill(self) -> None:
        with self._lock:
            self._killed = True
            process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        threading.Thread(target=process.wait, name="toolyard-reaper", daemon=True).start()

    def _death(self) -> str:
        process = self._process
        if process is None or self._killed:
            return "its process was ended before it gave a result"
        try:
            status = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "its process closed the pipe without a result"
        return f"its process ended without a result (exit status {status})"


class _Services:
    """What an isolated handler may ask for, done on the call's own branch."""

    def __init__(self, run: CallRun, context: ToolContext) -> None:
        self._run = run
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
            return portable_outcome(self._run.call(*args))
        return getattr(self._run, method)(*args)

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
        return list(value) if method == "all" else value

    def _resources(self, method: str, kind: type[Any]) -> Any:
        resources = self._context.resources
        if method == "contains":
            return kind in resources
        if method == "check":
            resources.get(kind)
            return None
        resource = resources.get(kind)
        if kind not in self._run.executor.portable:
            msg = (
                f"{kind.__qualname__} cannot go into an isolated process; declare its binding "
                "portable=True, or use isolation='thread'."
            )
            raise ResourceError(msg)
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


def _plain(context: ToolContext) -> Any:
    call = context.tool_call
    return dataclasses.replace(call, cancellation=None) if call is not None else None

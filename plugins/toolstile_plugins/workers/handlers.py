"""The processes of a worker that run handlers: each runs one at a time, and can be killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.services.dispatcher import (
    DispatchedCall,
    DispatchOutcome,
    DispatchState,
)
from toolstile_plugins.isolation.child_process import started

HANDLER_PROCESS: Final = f"{__package__}.handler_process"
"""The program of the processes."""
_SENT = ("tool", "params", "traceparent", "connection")
_DIED = "The process of its handler died while it ran."
_NOT_STARTED = "The process of its handler did not start; see the log of the worker."


class HandlerProcesses:
    """Runs handlers in processes that are kept, and killed where a handler is to end.

    Args:
        modules: The names of the modules with the tools.
        tools: The versions of the tools, by name.
    """

    def __init__(self, modules: Sequence[str], tools: Mapping[str, str | None]) -> None:
        self.tools = tools
        self._modules = list(modules)
        self._idle: list[_HandlerProcess] = []
        self._running: dict[str, _HandlerProcess] = {}
        self._lock = threading.Lock()

    def start(self, number: int) -> None:
        """Start so many processes, so that no call waits for one.

        Raises:
            ConfigurationError: One of them has died, which it tells in the log.
        """
        try:
            self._idle += [_HandlerProcess(self._modules) for _ in range(number)]
            for process in self._idle:
                process.await_up()
        except (EOFError, OSError) as error:
            raise ConfigurationError(
                "The processes of the handlers do not start. See above why, and fix it."
            ) from error

    def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:
        """Run the handler of a call and wait for it; see `CallRunner`."""
        with self._lock:
            process = self._idle.pop() if self._idle else _HandlerProcess(self._modules)
            self._running[call.key] = process
        began = False

        def begin_it() -> bool:
            nonlocal began
            began = begin()
            return began

        try:
            outcome = process.run(call, begin_it)
        except (OSError, EOFError):
            outcome = process.lost(began=began)
            process.kill(outcome.text)
        finally:
            with self._lock:
                self._running.pop(call.key, None)
        if process.is_alive:
            with self._lock:
                self._idle.append(process)
        else:
            process.close()
        return outcome

    def end(self, key: str, reason: str) -> None:
        """Kill the process of a call's handler; see `CallRunner`."""
        with self._lock:
            process = self._running.get(key)
        if process is not None:
            process.kill(reason)

    def close(self) -> None:
        """Kill the processes that run nothing."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()


class _HandlerProcess:
    """A process that leads a group of its own."""

    def __init__(self, modules: list[str]) -> None:
        self._process, ours = started(HANDLER_PROCESS)
        self._connection = ours
        self._lines = ours.makefile("rb")
        self._reason: str | None = None
        self._lock = threading.Lock()
        self._is_up = False
        with suppress(OSError):
            # Where it has died already, the first answer tells.
            self._send({"path": sys.path, "modules": modules})

    @property
    def is_alive(self) -> bool:
        """True as long as it can take the next call."""
        return self._reason is None and self._process.poll() is None

    def await_up(self) -> None:
        """Wait until it has imported the modules."""
        if not self._is_up:
            self._receive()
            self._is_up = True

    def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:
        """Run a handler.

        Raises:
            EOFError, OSError: The process has died, or was killed.
        """
        self.await_up()
        self._send({name: getattr(call, name) for name in _SENT})
        if "outcome" not in (told := self._receive()):
            self._send({"go": begin()})
            told = self._receive()
        state, *rest = told["outcome"]
        return DispatchOutcome(DispatchState(state), *rest)

    def lost(self, *, began: bool) -> DispatchOutcome:
        """Return the outcome of a handler whose process has died."""
        if began:
            return DispatchOutcome(DispatchState.UNKNOWN, self._reason or _DIED)
        return DispatchOutcome(DispatchState.NOT_RUN, self._reason or _NOT_STARTED)

    def kill(self, reason: str) -> None:
        """Kill it with all that it has started."""
        with self._lock:
            self._reason = self._reason or reason
            if self._process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill it, and wait for its end."""
        self.kill("It was closed.")
        self._process.wait()
        self._lines.close()
        self._connection.close()

    def _send(self, message: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def _receive(self) -> Any:
        line = self._lines.readline()
        if not line:
            raise EOFError
        return json.loads(line)

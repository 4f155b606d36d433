"""The handler processes of a worker, for `toolstile worker` and within a host."""

from __future__ import annotations

import argparse
import importlib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from types import ModuleType
from typing import Any, Final, cast

from toolstile_hookspecs import ConfigurationError, HostHandle, Tool
from toolstile_hookspecs.services.dispatcher import (
    DispatchedCall,
    Dispatcher,
    DispatchOutcome,
    DispatchState,
)
from toolstile_plugins.isolation.child_process import ChildProcess
from toolstile_plugins.isolation.messages import (
    MAX_ENCLOSED,
    Ended,
    Load,
    Ready,
    SocketChannel,
    Take,
)
from toolstile_plugins.workers.settings import dispatcher_of

HANDLER_PROCESS: Final = f"{__package__}.handler_process"
"""The program of the processes."""
_DIED = "The process of its handler died while it ran."
_NOT_STARTED = "The process of its handler did not start; see the log of the worker."


class HandlerProcesses:
    """Runs handlers in processes that are reused, and killed to end a handler.

    The processes import `modules`; `tools` has the versions of their tools, by name.
    """

    def __init__(self, modules: Sequence[str], tools: Mapping[str, str | None]) -> None:
        self.tools = tools
        self._modules = list(modules)
        self._idle: list[_HandlerProcess] = []
        self._running: dict[str, _HandlerProcess] = {}
        self._lock = threading.Lock()

    def start(self, number: int) -> None:
        """Start processes, so that no call waits; raises `ConfigurationError` if one has died."""
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
            state = DispatchState.UNKNOWN if began else DispatchState.NOT_RUN
            text = process.reason or (_DIED if began else _NOT_STARTED)
            process.kill(text)
            outcome = DispatchOutcome(state, text)
        finally:
            with self._lock:
                self._running.pop(call.key, None)
        # Not if `end` has begun to kill it.
        if process.reason is None and process.process.is_alive:
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
        """Kill the idle processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()


class _HandlerProcess:
    def __init__(self, modules: list[str]) -> None:
        self.process = ChildProcess(HANDLER_PROCESS)
        self._channel = SocketChannel(self.process.start(), MAX_ENCLOSED)
        self.reason: str | None = None
        self._is_up = False
        with suppress(OSError):
            # If the process has died already, the first receive raises.
            self._channel.send(Load(sys.path, modules))

    def await_up(self) -> None:
        if not self._is_up:
            self._channel.receive()
            self._is_up = True

    def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:
        """Run a handler; raises `EOFError` or `OSError` if the process dies or is killed."""
        self.await_up()
        self._channel.send(Take(call.tool, call.params, call.traceparent, call.connection))
        if not isinstance(told := self._channel.receive(), Ended):
            self._channel.send(Ready(begin()))
            told = cast("Ended", self._channel.receive())
        state, *rest = told.outcome
        return DispatchOutcome(DispatchState(state), *rest)

    def kill(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.process.kill()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._channel.close()


log = logging.getLogger("toolstile.workers")


def tools_in(modules: Iterable[ModuleType]) -> dict[str, Tool[Any, Any]]:
    """Return the tools of modules that have a handler, by name."""
    found = [value for module in modules for value in vars(module).values()]
    tools: list[Any] = [value for value in found if isinstance(value, Tool)]
    return {tool.name: tool for tool in tools if tool.handler is not None}


@contextmanager
def own_worker(
    dispatcher: Dispatcher, tools: Iterable[Tool[Any, Any]], concurrency: int
) -> Generator[None]:
    """Run calls of tools while the block runs, at most `concurrency` at once.

    `ConfigurationError`: the processes do not start, or cannot import the module of a tool.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == HANDLER_PROCESS:
        raise ConfigurationError(
            "plugins.workers.concurrency: a module of tools opens a host when it is imported, as "
            "processes of handlers do. Open it in a function, or keep the tools in another module."
        )
    versions = {tool.name: tool.version for tool in tools}
    modules = sorted({_module_of(tool) for tool in tools})
    stop = Event()

    def serve() -> None:
        try:
            dispatcher.serve(handlers, concurrency=concurrency, stop=stop)
        except Exception:
            log.exception("The worker of this host has ended, and takes no more calls.")

    with closing(HandlerProcesses(modules, versions)) as handlers:
        handlers.start(concurrency)
        thread = Thread(target=serve, name="toolstile-own-worker", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _module_of(tool: Tool[Any, Any]) -> str:
    function: Any = getattr(tool, "function", tool.handler)
    name: str = getattr(function, "__module__", "__main__")
    module = None if name == "__main__" else sys.modules.get(name)
    if module is None or tool.name not in tools_in([module]):
        raise ConfigurationError(
            f"plugins.workers.concurrency: {tool.name} is not at the top level of a module that "
            "another process can import. Move it there, or leave it out of [plugins.workers.runs]."
        )
    return name


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Run `toolstile worker`."""
    with closing(dispatcher_of(host.settings("workers"), host)) as dispatcher:
        return run_worker(dispatcher, args.tools, args.concurrency)


def run_worker(dispatcher: Dispatcher, modules: Sequence[str], concurrency: int) -> int:
    """Run calls of the tools of modules; `ConfigurationError` if one has none, or is not there."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        tools = tools_in([importlib.import_module(name) for name in modules])
    except Exception as error:
        told = f"--tools: {type(error).__name__}: {error}. Name modules that can be imported."
        raise ConfigurationError(told) from error
    if not tools:
        raise ConfigurationError(
            f"--tools: {', '.join(modules)} has no tool with a handler, such as a function made "
            "one with @tool. Name a module that has one."
        )
    handlers = HandlerProcesses(modules, {name: tool.version for name, tool in tools.items()})
    with closing(handlers), _stop_on_signals() as stop:
        handlers.start(concurrency)
        _tell(f"A worker runs {', '.join(sorted(tools))}, {concurrency} at once.")
        dispatcher.serve(handlers, concurrency=concurrency, stop=stop)
    _tell("The worker has ended.")
    return 0


@contextmanager
def _stop_on_signals() -> Generator[threading.Event]:
    """Set the event at SIGTERM or Ctrl-C; a second signal has its previous effect."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def drain(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, drain)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()

"""`toolstile worker`: runs handlers until it is asked to end, and then ends what it has begun."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.services.dispatcher import Dispatcher
from toolstile_plugins.workers.handlers import HandlerProcesses
from toolstile_plugins.workers.tool_modules import tools_in


def run_worker(dispatcher: Dispatcher, modules: Sequence[str], concurrency: int) -> int:
    """Run calls of the tools of modules.

    Raises:
        ConfigurationError: A module cannot be imported, or there is no tool for a worker.
    """
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
    """Set the event at SIGTERM or Ctrl-C; a second one does what it did before."""
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

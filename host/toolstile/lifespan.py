"""The lifespans of plugins, entered when the host opens and left when it closes."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from toolstile.plugins.plugin_errors import PluginFault, in_configuration, raised_in, wrong_answer
from toolstile_hookspecs import ConfigurationError, PluginError, ToolstileError
from toolstile_hookspecs.support.event_loop import is_on_loop

if TYPE_CHECKING:
    from toolstile.pipeline.environment import ExecutorHost
    from toolstile.plugins.inspection import Implementation


log = logging.getLogger("toolstile")
_HOOK: Final = "toolstile_lifespan"


class Lifespans:
    """The entered lifespans of a host; those in `leaving` wait for calls under way."""

    def __init__(self) -> None:
        self.calls: set[object] = set()
        self.leaving: dict[ExitStack, set[object]] = {}
        self._entered: dict[str, ExitStack] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def enter(self, host: ExecutorHost, stack: ExitStack, only: str | None = None) -> None:
        """Enter the lifespans that the host's purpose needs; leave those entered if one fails.

        The stack leaves them in reverse order. `only` names a plugin of an open host. A
        `PluginError` names the plugin that raised, the cause and the remedy.
        """
        states = host.plugins.states = {} if only is None else {**host.plugins.states}
        with ExitStack() as entered:
            for implementation in host.plugins.implementations(_HOOK):
                plugin = implementation.plugin
                is_needed = host.purpose != "look" or implementation.effect_free
                if is_needed and only in {None, plugin}:
                    own = self._entered[plugin] = ExitStack()
                    entered.callback(own.close)
                    try:
                        states[plugin] = enter_lifespan(host, own, implementation)
                    except ToolstileError:
                        raise
                    except Exception as error:
                        fault, reports = fault_of(error, plugin, host), host.plugins.reports
                        title = next(each.title for each in reports if each.name == plugin)
                        msg = f"Plugin {title} cannot be started: {fault.cause} {fault.remedy}"
                        raise PluginError(msg) from error
            host.plugins.hold(states)
            stack.push(entered.pop_all())

    def leave(self, plugin: str) -> None:
        """Leave the lifespan of an unregistered plugin, after the last call under way."""
        if (stack := self._entered.pop(plugin, None)) is not None:
            with self._lock:
                # Listed first, so that a call which ends meanwhile looks here.
                self.leaving[stack] = set()
                self.leaving[stack] = self.calls.copy()
            self.call_ended(None)
            if not is_on_loop():
                self.wait()

    def call_ended(self, call: object) -> None:
        """Leave the lifespans that waited for no other call."""
        with self._lock:
            for stack, calls in [*self.leaving.items()]:
                calls.discard(call)
                if not calls:
                    del self.leaving[stack]
                    # A thread, because the call may end on the loop that an async lifespan needs.
                    self._threads.append(threading.Thread(target=stack.close, daemon=True))
                    self._threads[-1].start()

    def wait(self) -> None:
        """Wait for the lifespans that are being left."""
        while self._threads:
            self._threads.pop().join()


def fault_of(error: Exception, plugin: str, host: ExecutorHost) -> PluginFault:
    """Return the fault of a plugin whose lifespan raised on entering."""
    if isinstance(error, ConfigurationError):
        return in_configuration(error, plugin, host.configuration)
    return error if isinstance(error, PluginFault) else raised_in(_HOOK, error)


def enter_lifespan(host: ExecutorHost, stack: ExitStack, implementation: Implementation) -> Any:
    """Enter the lifespan of a plugin, which the stack leaves again; return the yielded object."""
    plugin = implementation.plugin
    lifespan: Any = implementation.call(host)
    if lifespan is None:
        return None
    if hasattr(lifespan.__class__, "__enter__"):
        state = lifespan.__enter__()
        stack.callback(_leave, plugin, lifespan)
        return state
    if hasattr(lifespan.__class__, "__aenter__"):
        from toolstile.drivers.background_loop import AsyncLife  # with asyncio, which few need

        life = AsyncLife(plugin, lifespan, host.engine.background.loop)
        # The wait until it is entered may be interrupted, as by Ctrl-C.
        stack.callback(life.end)
        return life.begin()
    expected = "a context manager, such as a function with @contextmanager makes, or None"
    raise wrong_answer(_HOOK, lifespan, expected)


def _leave(plugin: str, lifespan: Any) -> None:
    try:
        lifespan.__exit__(None, None, None)
    except Exception:
        log.exception("Plugin %s failed to stop what it kept running.", plugin)

"""Starting and stopping what plugins keep running while the host is open."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from toolstile.plugins.plugin_errors import PluginFault, in_configuration, raised_in, wrong_answer
from toolstile_hookspecs import ConfigurationError, PluginError, ToolstileError

if TYPE_CHECKING:
    from toolstile.pipeline.environment import ExecutorHost
    from toolstile.plugins.hook_manager import Implementation


log = logging.getLogger("toolstile")
_HOOK: Final = "toolstile_lifespan"


def enter_lifespans(host: ExecutorHost, stack: ExitStack, only: str | None = None) -> None:
    """Enter the lifespans that the host's purpose needs; leave those entered when one cannot be.

    Args:
        host: The host that the plugins are given.
        stack: Leaves them again, in reverse order.
        only: The plugin that is registered with an open host; None for all.

    Raises:
        PluginError: Naming the plugin that raised on entering, the cause and the remedy.
        ToolstileError: What a plugin raised that is one already, such as `ConfigurationError`.
    """
    with ExitStack() as entered:
        for implementation in host.plugins.implementations(_HOOK):
            plugin = implementation.plugin
            is_needed = host.purpose != "look" or implementation.effect_free
            if is_needed and only in {None, plugin}:
                try:
                    enter_lifespan(host, entered, implementation)
                except ToolstileError:
                    raise
                except Exception as error:
                    fault = fault_of(error, plugin, host)
                    title = next(each.title for each in host.plugins.reports if each.name == plugin)
                    msg = f"Plugin {title} cannot be started: {fault.cause} {fault.remedy}"
                    raise PluginError(msg) from error
        stack.push(entered.pop_all())


def fault_of(error: Exception, plugin: str, host: ExecutorHost) -> PluginFault:
    """Return the fault of a plugin whose lifespan raised on entering."""
    if isinstance(error, ConfigurationError):
        return in_configuration(error, plugin, host.configuration)
    return error if isinstance(error, PluginFault) else raised_in(_HOOK, error)


def enter_lifespan(host: ExecutorHost, stack: ExitStack, implementation: Implementation) -> None:
    """Enter the lifespan of a plugin, which the stack leaves again; raises what that raises."""
    plugin = implementation.plugin
    lifespan: Any = implementation.call(host)
    if lifespan is None:
        return
    if hasattr(lifespan.__class__, "__enter__"):
        lifespan.__enter__()
        stack.callback(_leave, plugin, lifespan)
    elif hasattr(lifespan.__class__, "__aenter__"):
        from toolstile.drivers.async_lifespan import AsyncLife  # few plugins keep a loop busy

        life = AsyncLife(plugin, lifespan, host.engine.background.loop)
        # The wait until it is entered may be interrupted, as by Ctrl-C.
        stack.callback(life.end)
        life.begin()
    else:
        expected = "a context manager, such as a function with @contextmanager makes, or None"
        raise wrong_answer(_HOOK, lifespan, expected)


def _leave(plugin: str, lifespan: Any) -> None:
    try:
        lifespan.__exit__(None, None, None)
    except Exception:
        log.exception("Plugin %s failed to stop what it kept running.", plugin)

"""Workers: handlers of chosen tools run in other processes, and begin once despite crashes.

Settings, `[plugins.workers]`: see `WorkersSettings`. `toolstile worker` starts a worker.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from toolstile_hookspecs import (
    Binding,
    Command,
    HostHandle,
    Tool,
    applies_to,
    hookimpl,
)
from toolstile_hookspecs.services.dispatcher import Dispatcher
from toolstile_plugins.workers import cli
from toolstile_plugins.workers.settings import WorkersSettings, dispatcher_of, endpoint

if TYPE_CHECKING:
    from toolstile_plugins.workers.remote_call import ConnectedCall, RemoteCall

__all__ = ["WorkersSettings"]

_CALLS: Final = "workers.calls"
"""The name of the plugin that replaces the handlers."""


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return WorkersSettings


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: WorkersSettings) -> Generator[None]:
    """Run calls of the chosen tools on workers while the host is open."""
    if settings.runs is None:
        yield
        return
    # Late, because most hosts have no workers.
    from concurrent.futures import ThreadPoolExecutor

    from toolstile_plugins.workers.connections import HandlerConnections

    with ExitStack() as stack:
        dispatcher = stack.enter_context(closing(dispatcher_of(settings, host)))
        connections = stack.enter_context(closing(HandlerConnections(_address(host, settings))))
        if settings.address is not None and host.purpose == "serve":
            connections.open()
        cancelling = stack.enter_context(ThreadPoolExecutor(thread_name_prefix="toolstile-cancel"))
        if settings.concurrency:
            from toolstile_plugins.workers.handlers import own_worker

            tools = [tool for tool in host.catalog if tool.handler and settings.runs.selects(tool)]
            stack.enter_context(own_worker(dispatcher, tools, settings.concurrency))

        @hookimpl
        @applies_to(settings.runs.selects)
        def toolstile_execute(tool: Tool[Any, Any]) -> RemoteCall | ConnectedCall | None:
            """Run the handler on a worker."""
            from toolstile_plugins.workers.remote_call import ConnectedCall, RemoteCall, needs_host

            if tool.handler is None:
                return None
            if needs_host(tool):
                return ConnectedCall(tool, settings, cancelling, connections)
            return RemoteCall(tool, settings, cancelling)

        @hookimpl
        def toolstile_resources() -> list[Binding[Any]]:
            """Offer the dispatcher; a binding of the application replaces it."""
            return [Binding[Dispatcher].instance(Dispatcher, dispatcher)]  # type: ignore[type-abstract]

        # A second plugin, because its hooks depend on the settings of this host.
        calls = SimpleNamespace(
            toolstile_execute=toolstile_execute, toolstile_resources=toolstile_resources
        )
        host.register(calls, _CALLS)
        stack.callback(host.unregister, _CALLS)
        yield


def _address(host: HostHandle, settings: WorkersSettings) -> str | None:
    # A command beside a host takes any free port, because the host has the port of the address.
    if settings.address is None or host.purpose == "serve":
        return settings.address
    name, _ = endpoint(settings.address)
    return f"[{name}]" if ":" in name else name


@hookimpl
def toolstile_commands() -> list[Command]:
    """Add `toolstile worker`."""
    return cli.commands(Command)

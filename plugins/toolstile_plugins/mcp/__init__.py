"""The Model Context Protocol: a server for any client, a gateway for any server.

Settings, `[plugins.mcp]`: see `McpSettings`. What speaks the protocol is the official SDK (the
extra `mcp`); it is imported only where something is served, or a server is configured.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    Binding,
    Command,
    Diagnostic,
    HostHandle,
    ResourceResolver,
    ToolContext,
    ToolResult,
    applies_to,
    hookimpl,
)
from toolstile_plugins.approval.beside import AtClient, Reached
from toolstile_plugins.cli_support import needing
from toolstile_plugins.directories import file_finding
from toolstile_plugins.mcp import cli
from toolstile_plugins.mcp.gateway.errors import ServerFault, filled
from toolstile_plugins.mcp.settings import McpSettings, ServerSettings
from toolstile_plugins.mcp.workspace_read import TOOL, handler_of_read

__all__ = ["McpSettings"]


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return McpSettings


@hookimpl
def toolstile_diagnose(settings: McpSettings) -> Iterator[Diagnostic]:
    """Find out whether the servers can be started, and where they run, what to look at."""
    servers = {name: server for name, server in settings.servers.items() if server.enabled}
    if not servers:
        return
    yield file_finding(settings.pins, "what is known of MCP servers' tools")
    for name, server in servers.items():
        yield _of_server(name, server)
    if settings.gateway is not None:
        from toolstile_plugins.mcp.gateway.check import found_of  # only `doctor` comes here

        for upstream in settings.gateway.upstreams:
            # A server that is missing is told in its plugin's report.
            for told in found_of(upstream, None).told():
                remedy = f"Fix plugins.mcp.servers.{upstream.name}, or see `toolstile mcp check`."
                yield Diagnostic.warning(f"tools of MCP server {upstream.name}", told, remedy)


@hookimpl
def toolstile_resources(settings: McpSettings) -> list[Binding[Any]]:
    """Offer the client that has called a tool as a way to ask beside an inbox."""

    def at_client(resources: ResourceResolver) -> AtClient:  # noqa: ARG001 - it needs none
        return _Client(settings.serve.elicitation_timeout)

    return [Binding[AtClient](AtClient, at_client)]  # type: ignore[type-abstract]


class _Client:
    """The person at the client whose call is running; an `AtClient`."""

    def __init__(self, longest: float) -> None:
        self._longest = longest

    def reach(self) -> Reached | None:
        """Return the person, None if no client is served that can ask a question."""
        # Because the SDK is heavy, it is not imported in a process that serves nothing.
        if "toolstile_plugins.mcp.server.elicitation" not in sys.modules:
            return None
        from toolstile_plugins.mcp.server.elicitation import reached

        return reached(self._longest)


@hookimpl
def toolstile_approve(
    request: ApprovalRequest, settings: McpSettings
) -> ApprovalAnswer | Awaitable[ApprovalAnswer]:
    """Ask the person at the client that has called the tool."""
    # The SDK is heavy, and where nothing is served nobody is asked.
    from toolstile_plugins.mcp.server.elicitation import ask

    return ask(request, settings.serve.elicitation_timeout)


@hookimpl(tryfirst=True)
@applies_to(lambda tool: tool.name == TOOL)
def toolstile_execute(context: ToolContext) -> Callable[..., ToolResult[None]] | None:
    """Give a client the file that it reads as a resource."""
    return handler_of_read(context)


@hookimpl
def toolstile_commands() -> list[Command]:
    """Add the command `mcp`."""
    return cli.commands(Command)


@hookimpl
def toolstile_lifespan(
    host: HostHandle, settings: McpSettings
) -> AbstractAsyncContextManager[None] | None:
    """Keep the servers behind the gateway connected."""
    if not any(server.enabled for server in settings.servers.values()):
        return None
    with needing("plugins.mcp.servers needs the MCP SDK, which is not installed.", "mcp"):
        # Late: most hosts have no such servers.
        from toolstile_plugins.mcp.gateway.gateway import running
    return running(host, settings)


def _of_server(name: str, server: ServerSettings) -> Diagnostic:
    subject, table = f"MCP server {name}", f"plugins.mcp.servers.{name}"
    try:
        for where, text in _written(server):
            filled(text, where)
    except ServerFault as error:
        return Diagnostic.error(subject, f"Its {error}.", f"Set the variable, or fix {table}.")
    if server.cwd is not None and not Path(server.cwd).is_dir():
        fault = "The directory it is started in is not there."
        return Diagnostic.error(subject, fault, f"Fix {table}.cwd.")
    path = server.env.get("PATH", os.environ.get("PATH"))
    if server.command is not None and shutil.which(server.command, path=path) is None:
        fault = f"There is no program {server.command!r} that can be started."
        return Diagnostic.error(subject, fault, f"Install it, or fix {table}.command.")
    return Diagnostic.ok(subject, "It can be asked; `toolstile mcp check` shows its tools.")


def _written(server: ServerSettings) -> list[tuple[str, str]]:
    """Return the texts in which variables may stand, with where each is written."""
    args = (("args", text) for text in server.args)
    return [("url", server.url or ""), *args, *server.env.items(), *server.headers.items()]

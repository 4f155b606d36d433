"""The Model Context Protocol: a server for any client, a gateway for any server.

Settings, `[plugins.mcp]`: see `McpSettings`. The official SDK (the extra `mcp`) speaks the
protocol; it is imported only to serve, or if a server is configured.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from toolstile_hookspecs import (
    ApprovalCard,
    ApprovalRequest,
    Binding,
    Command,
    Diagnostic,
    HostHandle,
    StatusPart,
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
from toolstile_plugins.mcp.workspace_read import TOOL, current_read

__all__ = ["McpSettings"]


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return McpSettings


@hookimpl
def toolstile_diagnose(host: HostHandle, settings: McpSettings) -> Iterator[Diagnostic]:
    """Check that the servers can be started, and, if they are connected, their tools."""
    servers = {name: server for name, server in settings.servers.items() if server.enabled}
    if not servers:
        return
    yield file_finding(settings.pins, "the known tools of MCP servers")
    for name, server in servers.items():
        yield _of_server(name, server)
    if (gateway := host.state(cli.NAME)) is not None:
        from toolstile_plugins.mcp.gateway.check import (  # only `doctor` comes here
            found_of,
            points_of,
        )

        for upstream in gateway.upstreams:
            # The report of a server's plugin tells that the server is missing.
            for told in points_of(found_of(upstream, None)):
                remedy = f"Fix plugins.mcp.servers.{upstream.name}, or see `toolstile mcp check`."
                yield Diagnostic.warning(f"tools of MCP server {upstream.name}", told, remedy)


@hookimpl
def toolstile_status() -> Iterator[StatusPart]:
    """Report the wrapped servers in clients' files, and their last calls."""
    files = (Path(file).expanduser() for file in cli.CLIENTS.values())
    # Only `toolstile status` asks, and such files may be large.
    if found := [file for file in files if file.is_file() and b"toolstile" in file.read_bytes()]:
        from toolstile_plugins.mcp.wrap.files import reported

        yield from reported(found)


@hookimpl
def toolstile_resources(settings: McpSettings) -> list[Binding[Any]]:
    """Offer the client of a call as a way to ask beside an inbox."""
    client = _Client(settings.serve.elicitation_timeout)
    return [Binding[AtClient](AtClient, lambda _: client)]  # type: ignore[type-abstract]


class _Client:
    """The person at the client whose call is running; an `AtClient`."""

    def __init__(self, longest: float) -> None:
        self._longest = longest

    def reach(self) -> Reached | None:
        """Return the person, None if no client is served that can ask a question."""
        # Because the SDK is heavy, it is not imported in a process that serves nothing.
        elicitation = sys.modules.get("toolstile_plugins.mcp.server.elicitation")
        # Another thread may just import it.
        reached: Callable[[float], Reached | None] | None = getattr(elicitation, "reached", None)
        return None if reached is None else reached(self._longest)


@hookimpl
def toolstile_approve(request: ApprovalRequest, settings: McpSettings) -> Any:
    """Ask the person at the client that made the call."""
    return _asked(request, settings)


@hookimpl
def toolstile_approve_turn(card: ApprovalCard, settings: McpSettings) -> Any:
    """Ask the person at the client about several calls that its request has led to."""
    return _asked(card, settings)


def _asked(asked: ApprovalRequest | ApprovalCard, settings: McpSettings) -> Any:
    # Because the SDK is heavy, and no host asks here without a client, this import is late.
    from toolstile_plugins.mcp.server.elicitation import ask, ask_card

    longest = settings.serve.elicitation_timeout
    if isinstance(asked, ApprovalCard):
        return ask_card(asked, longest)
    return ask(asked, longest)


@hookimpl(tryfirst=True)
@applies_to(lambda tool: tool.name == TOOL)
def toolstile_execute(context: ToolContext) -> Callable[..., ToolResult[None]] | None:
    """Give a client the file that it reads as a resource."""
    read, call = current_read.get(), context.tool_call
    is_of_client = read is not None and call is not None and call.id == read.call_id
    return read.handler if read is not None and is_of_client else None


@hookimpl
def toolstile_commands() -> list[Command]:
    return cli.commands(Command)


@hookimpl
def toolstile_lifespan(
    host: HostHandle, settings: McpSettings
) -> AbstractAsyncContextManager[object] | None:
    """Keep the servers behind the gateway connected."""
    if not any(server.enabled for server in settings.servers.values()):
        return None
    with needing("plugins.mcp.servers needs the MCP SDK, which is not installed.", "mcp"):
        # Because most hosts have no such servers, this import is late.
        from toolstile_plugins.mcp.gateway.gateway import running
    return running(host, settings)


def _of_server(name: str, server: ServerSettings) -> Diagnostic:
    subject, table = f"MCP server {name}", f"plugins.mcp.servers.{name}"
    try:
        args = (("args", text) for text in server.args)
        written = [("url", server.url or ""), *args, *server.env.items(), *server.headers.items()]
        for where, text in written:
            filled(text, where)
    except ServerFault as error:
        return Diagnostic.error(subject, f"Its {error}.", f"Set the variable, or fix {table}.")
    if server.cwd is not None and not Path(server.cwd).is_dir():
        fault = f"Its directory {server.cwd} does not exist."
        return Diagnostic.error(subject, fault, f"Fix {table}.cwd.")
    path = server.env.get("PATH", os.environ.get("PATH"))
    if server.command is not None and shutil.which(server.command, path=path) is None:
        fault = f"The program {server.command!r} cannot be found."
        return Diagnostic.error(subject, fault, f"Install it, or fix {table}.command.")
    return Diagnostic.ok(subject, "It can be asked; `toolstile mcp check` shows its tools.")

"""The Model Context Protocol: a server for any client, a gateway for any server.

Settings, `[plugins.mcp]`: see `McpSettings`. What speaks the protocol is the official SDK (the
extra `mcp`); it is imported only where something is served, or a server is configured.
"""

from __future__ import annotations

from collections.abc import Awaitable

from pydantic import BaseModel

from toolyard_hookspecs import ApprovalAnswer, ApprovalRequest, Command, hookimpl
from toolyard_plugins.mcp.options import offered_commands
from toolyard_plugins.mcp.settings import McpSettings

__all__ = ["McpSettings"]


@hookimpl
def toolyard_settings() -> type[BaseModel]:
    """Declare the settings."""
    return McpSettings


@hookimpl
def toolyard_approve(
    request: ApprovalRequest, settings: McpSettings
) -> ApprovalAnswer | Awaitable[ApprovalAnswer]:
    """Ask the person at the client that has called the tool."""
    # The SDK is heavy, and where nothing is served nobody is asked.
    from toolyard_plugins.mcp.server.elicitation import ask

    return ask(request, settings.serve.elicitation_timeout)


@hookimpl
def toolyard_commands() -> list[Command]:
    """Add the command `mcp`."""
    return offered_commands()

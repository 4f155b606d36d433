"""The Model Context Protocol: a server for any client, a gateway for any server.

Settings, `[plugins.mcp]`: see `McpSettings`. What speaks the protocol is the official SDK (the
extra `mcp`); it is imported only where something is served, or a server is configured.
"""

from __future__ import annotations

from pydantic import BaseModel

from toolyard_hookspecs import Command, hookimpl
from toolyard_plugins.mcp.options import offered_commands
from toolyard_plugins.mcp.settings import McpSettings

__all__ = ["McpSettings"]


@hookimpl
def toolyard_settings() -> type[BaseModel]:
    """Declare the settings."""
    return McpSettings


@hookimpl
def toolyard_commands() -> list[Command]:
    """Add the command `mcp`."""
    return offered_commands()

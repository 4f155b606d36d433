"""The settings of both sides, the table `[plugins.mcp]`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from toolyard_plugins.mcp.gateway.settings import ServerSettings
from toolyard_plugins.mcp.server.settings import ServeSettings


class McpSettings(BaseModel):
    """What is served, and which servers' tools are offered.

    Args:
        serve: How this host is served.
        servers: The servers whose tools become tools of this host, by the names they have here.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    serve: ServeSettings = ServeSettings()
    servers: dict[str, ServerSettings] = Field(default_factory=dict[str, ServerSettings])

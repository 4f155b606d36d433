"""The settings of both sides, the table `[plugins.mcp]`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from toolyard_plugins.mcp.gateway.settings import ServerSettings


class McpSettings(BaseModel):
    """What is served, and which servers' tools are offered.

    Args:
        servers: The servers whose tools become tools of this host, by the names they have here.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    servers: dict[str, ServerSettings] = Field(default_factory=dict[str, ServerSettings])

"""The settings of both sides, the table `[plugins.mcp]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from toolstile_plugins.mcp.gateway.settings import ServerSettings
from toolstile_plugins.mcp.gateway.tool_names import prefix_of
from toolstile_plugins.mcp.server.settings import ServeSettings


class McpSettings(BaseModel):
    """The settings of the server and the gateway.

    Args:
        serve: How this host is served.
        servers: The servers whose tools become tools of this host, by the names they have here.
        pins: The file that remembers what their tools were when they were met or approved.
        wait: Seconds for which a host that opens waits for servers that it has never met.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    serve: ServeSettings = ServeSettings()
    servers: dict[str, ServerSettings] = Field(default_factory=dict[str, ServerSettings])
    pins: Path = Path(".toolstile/mcp-tools.json")
    wait: Annotated[float, Field(ge=0)] = 10.0

    @model_validator(mode="after")
    def _are_told_apart(self) -> Self:
        prefixes: dict[str, str] = {}
        for name in self.servers:
            first = prefixes.setdefault(prefix_of(name), name)
            if first != name:
                raise ValueError(
                    f"the servers {first!r} and {name!r} cannot be told apart; rename one of them"
                )
        return self

    # Each host validates settings of its own, so each has a gateway of its own.
    _gateway: Any = PrivateAttr(default=None)

    @property
    def gateway(self) -> Any:
        """The gateway of the open host, None where no servers are configured."""
        return self._gateway

    def runs(self, gateway: object) -> None:
        """Note the gateway that runs, None once it has ended."""
        self._gateway = gateway

"""The settings of one server behind the gateway, the table `[plugins.mcp.servers.NAME]`."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ServerSettings(BaseModel):
    """How a server is reached: a program that is started, or a URL.

    Args:
        command: The program, which speaks over its standard input and output.
        args: Its arguments.
        env: Variables of its environment.
        url: Where it answers over streamable HTTP.
        headers: What is sent along with every request there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)

    @model_validator(mode="after")
    def _is_reached_one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either a command, which is started, or the url of a server")
        return self

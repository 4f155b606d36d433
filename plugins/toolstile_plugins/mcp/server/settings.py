"""The settings of the server, the table `[plugins.mcp.serve]`."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

Positive = Annotated[int, Field(gt=0, strict=True)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

FIVE_MINUTES: Final = 300.0
HALF_AN_HOUR: Final = 1800.0
MAX_REQUEST: Final = 4 * 1024 * 1024
MAX_RESOURCE: Final = 10 * 1024 * 1024
UNSENDABLE: Final = (
    "cannot be sent in a header; give one of ASCII characters that neither begins nor ends with a "
    "space"
)


def fits_header(token: str) -> bool:
    """Tell whether a client can send a token."""
    return bool(token) and token.isascii() and token.isprintable() and token == token.strip()


class ServeSettings(BaseModel):
    """The settings of serving the host's tools, prompt and workspace.

    Args:
        name: What the server calls itself.
        page_size: How many tools, prompts and resources a page of a list has.
        elicitation_timeout: Seconds for which a person at the client is waited for, where a tool
            needs approval; where the client asks by itself, `approval_expiry` of the host holds.
        deadline: Seconds after which a call is given up; a client may ask for fewer.
        workspace: Whether the files of the workspace are resources that clients can read.
        workspace_uri: What the URIs of these begin with.
        max_resource: In bytes; larger files are listed, but cannot be read as resources.
        session_timeout: Seconds for which a session over HTTP is kept while nobody uses it.
        max_sessions: How many sessions over HTTP are kept at a time.
        max_request: In bytes; larger requests over HTTP are refused.
        tokens: Who may connect over HTTP: the bearer token of each, by their name. Calls run
            with that name as their `user_id`, and nobody has a part in another's sessions.
        allowed_hosts: What the `Host` header may be, besides the address that is served;
            `name:*` stands for any port.
        allowed_origins: Which `Origin`s may connect, besides those of this machine where only
            it is served; `https://name:*` stands for any port.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)] = "toolstile"
    page_size: Positive = 100
    elicitation_timeout: Seconds = FIVE_MINUTES
    deadline: Seconds | None = None
    workspace: bool = True
    workspace_uri: Annotated[str, Field(pattern=r"^[a-z][a-z0-9+.-]*://(.*/)?$")] = "workspace:///"
    max_resource: Positive = MAX_RESOURCE
    session_timeout: Seconds = HALF_AN_HOUR
    max_sessions: Positive = 10_000
    max_request: Positive = MAX_REQUEST
    tokens: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _tokens_tell_principals_apart(self) -> Self:
        owners: dict[str, str] = {}
        for name, secret in self.tokens.items():
            token = secret.get_secret_value()
            if not fits_header(token):
                raise ValueError(f"the token of {name!r} {UNSENDABLE}")
            first = owners.setdefault(token, name)
            if first != name:
                raise ValueError(f"{first!r} and {name!r} have one token; give each its own")
        return self

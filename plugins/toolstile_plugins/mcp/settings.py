"""The settings of the server and the gateway, the table `[plugins.mcp]`."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from toolstile_hookspecs import DefinitionError, IdempotencyConfig
from toolstile_hookspecs.idempotency import OnError, OnUnknown
from toolstile_hookspecs.support.text import suggest
from toolstile_hookspecs.tools import Category, Concurrency, Consequence

# --- The server


Positive = Annotated[int, Field(gt=0, strict=True)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

SHARED_TOKEN: Final = "token"  # noqa: S105 - a name
"""The principal of the one token that is given on the command line, for all."""
ANY_CLIENT: Final = "*"
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
        name: The server's name for clients.
        page_size: How many resources a page has; tools and prompts are all on the first page.
        elicitation_timeout: Seconds to wait for a person at the client, if a tool needs approval;
            if the client asks by itself, `approval_expiry` of the host holds.
        deadline: Seconds after which a call times out; a client may ask for fewer.
        workspace: Whether the files of the workspace are resources that clients can read.
        workspace_uri: The beginning of the URIs of these files.
        max_resource: In bytes; larger files are listed, but cannot be read as resources.
        session_timeout: Seconds for which an unused session over HTTP is kept.
        max_sessions: How many sessions over HTTP a principal keeps at a time, beside its own.
        shared_sessions: Whether clients of the older era, too, have the session of their
            principal: some of them begin a session for every call.
        max_request: In bytes; larger requests over HTTP are refused.
        tokens: The bearer token of each client that may connect over HTTP, by name. Calls run with
            that name as their `user_id`, of a principal whose source is `mcp`. They run in the
            principal's session unless a request names another; no principal enters another's.
        request_from: The clients that are trusted to give the user's request, with
            `toolstile/request` in `_meta`: the names of their tokens, `token` for that of
            `--token-file`, or `*` for any client, also over standard input and output. Requests
            of other clients are ignored.
        allowed_hosts: The allowed `Host` headers, besides the address that is served; `name:*`
            stands for any port.
        allowed_origins: Which `Origin`s may connect, besides the server's own if only this machine
            reaches it; `https://name:*` stands for any port.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)] = "toolstile"
    page_size: Positive = 100
    elicitation_timeout: Seconds = 300.0
    deadline: Seconds | None = None
    workspace: bool = True
    workspace_uri: Annotated[str, Field(pattern=r"^[a-z][a-z0-9+.-]*://(.*/)?$")] = "workspace:///"
    max_resource: Positive = 10 * 1024 * 1024
    session_timeout: Seconds = 1800.0
    max_sessions: Positive = 10_000
    shared_sessions: bool = False
    max_request: Positive = 4 * 1024 * 1024
    tokens: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    request_from: frozenset[str] = frozenset()
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

    @model_validator(mode="after")
    def _trusts_clients_that_there_are(self) -> Self:
        known = {*self.tokens, SHARED_TOKEN, ANY_CLIENT}
        for name in sorted(self.request_from - known):
            raise ValueError(
                f"request_from: the token {name!r} is unknown{suggest(name, known) or '.'} Name "
                f"one of [plugins.mcp.serve.tokens], or {ANY_CLIENT!r} for any client"
            )
        return self


# --- Names of tools


LONGEST: Final = 64
_STRANGE: Final = re.compile(r"[^a-z0-9_-]+")
_HASHED: Final = 6


def prefix_of(server: str) -> str:
    """Return the prefix of the names of a server's tools, unless one is configured.

    Example:
        >>> prefix_of("GitHub Issues")
        'github_issues_'
    """
    return f"{_slug(server)[:40]}_"


def tool_name(prefix: str, own: str) -> str:
    """Return the name of a tool here: in the letters of a name, and not too long.

    A name that is too long is cut, and ends with some digits of its hash.

    Example:
        >>> tool_name("gh_", "Issues.List")
        'gh_issues_list'
    """
    name = f"{prefix}{_slug(own)}"
    if len(name) <= LONGEST:
        return name
    digits = hashlib.sha256(own.encode("utf-8", "replace")).hexdigest()[:_HASHED]
    return f"{name[: LONGEST - _HASHED - 1]}_{digits}"


def _slug(text: str) -> str:
    return _STRANGE.sub("_", text.lower()).strip("_") or "tool"


# --- Servers behind the gateway


Duration = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]
Trust = Literal["first_use", "ask", "always"]


class IdempotencySettings(BaseModel):
    """The recognition of a tool's repeated calls; see `IdempotencyConfig`.

    Args:
        strategy: `auto` goes by all params, `params` by those in `param_keys`.
        scope: `session`, `global`, `call`, or a name of your own.
        param_keys: The params that make calls the same, for `params`.
        ttl: Seconds for which a result answers, "none" for no limit.
        on_unknown: Whether a call runs again if its effect is unknown.
        on_error: Whether a call that failed may be repeated; unset, it depends on the failure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Literal["auto", "params"] = "auto"
    scope: str = "session"
    param_keys: tuple[str, ...] = ()
    ttl: Duration | Literal["none"] = timedelta(hours=24).total_seconds()
    on_unknown: OnUnknown = "fail"
    on_error: OnError | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if faults := self.config().faults():
            raise ValueError("; ".join(faults))
        return self

    def config(self) -> IdempotencyConfig:
        ttl = None if self.ttl == "none" else timedelta(seconds=self.ttl)
        given: dict[str, Any] = {**dict(self), "ttl": ttl}
        return IdempotencyConfig(**given)


class ToolSettings(BaseModel):
    """The corrections of a server's tool: the table `tools.NAME`.

    Args:
        enabled: Whether it is offered.
        name: Its name here, in place of the prefix and its own.
        description: Its description, in place of the server's.
        category: Its effect on the world.
        consequence: How bad it can be.
        requires_confirmation: Whether a person must approve every call.
        idempotency: How a repeated call is recognised, so that it has its effect once.
        concurrency: `serial` lets one call of it run at a time.
        timeout: Seconds until a call times out, "none" for never.
        tags: For filtering.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    name: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,64}$")] | None = None
    description: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    category: Category | None = None
    consequence: Consequence | None = None
    requires_confirmation: bool = False
    idempotency: IdempotencySettings | None = None
    concurrency: Concurrency = "parallel"
    timeout: Duration | Literal["none"] | None = None
    tags: tuple[str, ...] = ()


class ServerSettings(BaseModel):
    """The connection of a server, and the treatment of its tools.

    It is a program that is started, or a URL. `${NAME}` in `args`, `env`, `url` and `headers`
    stands for a variable of this process's environment.

    Args:
        command: The program, which speaks over its standard input and output.
        args: Its arguments.
        env: Variables of its environment, beside the few that every program needs.
        cwd: The directory it is started in.
        url: Its address for streamable HTTP.
        headers: The headers of every request there.
        enabled: Whether it is used.
        required: Whether `/ready` fails while it is away.
        prefix: The prefix of the names of its tools; the server's name and `_` if not given.
        only: The tools that are offered, by the server's names for them, or globs of these; all
            if not given.
        without: Tools that are not offered.
        tools: Corrections of single tools, by the same names.
        annotations: Whether the server's annotations of its tools (that they only read, say) decide
            on their category and consequence, unless `tools` does.
        trust: Whether a person is asked about tools that have changed since they were first met
            (`first_use`), also about new ones (`ask`), or never (`always`).
        protocol: Which era of the protocol is spoken: the newest that the server knows, or a
            fixed one.
        timeout: Seconds until a call times out, "none" for never; else the host's.
        connect_timeout: Seconds until an attempt to connect times out.
        max_message: The most bytes of one message of the server.
        max_binary: The most bytes of a result's images and the like; the rest is left out.
        max_tools: The most of its tools that are offered: the first ones.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    enabled: bool = True
    required: bool = False
    prefix: Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,40}$")] | None = None
    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    tools: dict[str, ToolSettings] = Field(default_factory=dict[str, ToolSettings])
    annotations: bool = True
    trust: Trust = "first_use"
    protocol: Literal["auto", "legacy", "2026-07-28"] = "auto"
    timeout: Duration | Literal["none"] | None = None
    connect_timeout: Duration = 60.0
    max_message: Count = 16 * 1024 * 1024
    max_binary: Count = 5_000_000
    max_tools: Count = 500

    @model_validator(mode="after")
    def _is_reached_one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise DefinitionError("give either a command, which is started, or the url of a server")
        stray = [
            name
            for name, given in (("args", self.args), ("env", self.env), ("cwd", self.cwd))
            if given and self.command is None
        ]
        stray += ["headers"] if self.headers and self.url is None else []
        if stray:
            other = "url" if self.command is None else "command"
            raise DefinitionError(f"{', '.join(stray)} does not go with {other}; take it out")
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """The tools that the settings name, by the server's names for them."""
        return tuple(dict.fromkeys((*(self.only or ()), *self.without, *self.tools)))

    def of_tool(self, name: str) -> ToolSettings:
        """Return the settings of a tool, by the server's name for it."""
        wider = (known for glob, known in self.tools.items() if names_tool(glob, name))
        return self.tools.get(name) or next(wider, _NOTHING_KNOWN)

    def name_here(self, server: str, name: str) -> str:
        """Return the name here of a server's tool."""
        prefix = prefix_of(server) if self.prefix is None else self.prefix
        return self.of_tool(name).name or tool_name(prefix, name)

    def names_here(self, server: str) -> list[str]:
        """Return the names, as globs, that the tools of a server may have here."""
        prefix = prefix_of(server) if self.prefix is None else self.prefix
        return [f"{prefix}*", *(tool.name for tool in self.tools.values() if tool.name)]

    def offers(self, name: str) -> bool:
        """Tell whether a tool is to be offered, by the server's name for it."""
        chosen = self.only is None or any(names_tool(glob, name) for glob in self.only)
        left_out = any(names_tool(glob, name) for glob in self.without)
        return chosen and not left_out and self.of_tool(name).enabled


def names_tool(glob: str, name: str) -> bool:
    """Tell whether a name or a glob in a server's settings means one of its tools."""
    return glob == name or fnmatchcase(name, glob)


_NOTHING_KNOWN = ToolSettings()


# --- The whole table


class McpSettings(BaseModel):
    """The settings of the server and the gateway.

    Args:
        serve: How this host is served.
        servers: The servers whose tools become tools of this host, by the names they have here.
        pins: The file with the definitions of their tools when they were met or approved.
        wait: Seconds for which a host that opens waits for its servers, all at once; 3 at most
            for servers whose tools it knows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    serve: ServeSettings = ServeSettings()
    servers: dict[str, ServerSettings] = Field(default_factory=dict[str, ServerSettings])
    pins: Path = Path(".toolstile/mcp-tools.json")
    wait: Annotated[float, Field(ge=0)] = 5.0

    @model_validator(mode="after")
    def _are_told_apart(self) -> Self:
        prefixes: dict[str, str] = {}
        for name in self.servers:
            first = prefixes.setdefault(prefix_of(name), name)
            if first != name:
                raise ValueError(
                    f"the servers {first!r} and {name!r} have the same prefix; rename one of them"
                )
        return self

    @property
    def awaited_tools(self) -> list[str]:
        """The names, also as globs, that the servers' tools may have here."""
        return [name for key, own in self.servers.items() for name in own.names_here(key)]

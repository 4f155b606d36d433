"""The command `toolstile mcp`: the choice of a transport, and its token."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from toolstile_hookspecs import NOTICE, ConfigurationError, HostHandle
from toolstile_plugins.cli_support import needing
from toolstile_plugins.console.cli import MISSING
from toolstile_plugins.mcp.server.stdio import serve_stdio
from toolstile_plugins.mcp.settings import SHARED_TOKEN, UNSENDABLE, ServeSettings, fits_header

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

VARIABLE: Final = "TOOLSTILE_MCP_TOKEN"
NOTHING: Final = (
    "No tool is served: add --workspace DIR for files, or plugins and servers to the "
    "configuration; `toolstile tools` says more."
)

log = logging.getLogger("toolstile.mcp")


def serve(host: HostHandle, settings: ServeSettings, args: argparse.Namespace) -> int:
    """Serve until the client leaves, or the process is asked to end."""
    if not host.catalog.names():
        log.warning("%s", NOTHING, extra=NOTICE)
    if args.http is None:
        if args.console:
            raise ConfigurationError("--console needs --http, such as --http 127.0.0.1:8000.")
        asyncio.run(serve_stdio(host, settings))
        return 0
    # Because a server on a pipe needs no web server, this import is late.
    from toolstile_plugins.mcp.server.http import Address, serve_http

    try:
        address = Address.parse(args.http)
    except ValueError as error:
        raise ConfigurationError(f"--http {args.http}: {error}.") from None
    tokens = {**settings.tokens, **given_token(args.token_file)}
    settings = settings.model_copy(update={"tokens": tokens})
    beside: Callable[[str], BaseRoute] | None = None
    if args.console:
        with needing(MISSING, "policies"):
            from toolstile_plugins.console.server import beside_others
        beside = partial(beside_others, host)
    asyncio.run(serve_http(host, settings, address, beside))
    return 0


def given_token(file: Path | None) -> Mapping[str, SecretStr]:
    """Return the one token for all clients, from a file or the environment, or nothing.

    Raises `ConfigurationError` if the file cannot be read, or has no token that a client can send.
    """
    try:
        text = os.environ.get(VARIABLE, "") if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        told = f"The token file {file} cannot be read: {why}."
        raise ConfigurationError(f"{told} Name a file with the token as text, on a line.") from None
    token = text.strip()
    if not token:
        if file is None:
            return {}
        raise ConfigurationError(f"{file} holds no token; write one into it, on a line.")
    if not fits_header(token):
        raise ConfigurationError(f"The token in {file or VARIABLE} {UNSENDABLE}.")
    return {SHARED_TOKEN: SecretStr(token)}

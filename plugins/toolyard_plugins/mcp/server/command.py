"""The command `toolyard mcp`: which transport serves, and with what."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from toolyard_hookspecs import ConfigurationError, HostHandle
from toolyard_plugins.mcp.server.addresses import Address
from toolyard_plugins.mcp.server.settings import ServeSettings
from toolyard_plugins.mcp.server.stdio import serve_stdio

PRINCIPAL: Final = "token"
"""Who connects with the one token that is given for all."""
VARIABLE: Final = "TOOLYARD_MCP_TOKEN"


def serve(host: HostHandle, settings: ServeSettings, args: argparse.Namespace) -> int:
    """Serve until the client leaves, or the process is asked to end.

    Raises:
        ConfigurationError: When it cannot be served like that; says why.
    """
    if args.http is None:
        asyncio.run(serve_stdio(host, settings))
        return 0
    # Whoever serves a pipe needs no web server.
    from toolyard_plugins.mcp.server.http import serve_http

    try:
        address = Address.parse(args.http)
    except ValueError as error:
        raise ConfigurationError(f"--http {args.http}: {error}.") from None
    tokens = {**settings.tokens, **_given_token(args.token_file)}
    asyncio.run(serve_http(host, settings.model_copy(update={"tokens": tokens}), address))
    return 0


def _given_token(file: Path | None) -> Mapping[str, SecretStr]:
    token = os.environ.get(VARIABLE, "") if file is None else _read(file)
    if not token.strip():
        if file is None:
            return {}
        raise ConfigurationError(f"{file} holds no token; write one into it, on a line.")
    return {PRINCIPAL: SecretStr(token.strip())}


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(f"The token file {file} cannot be read: {why}.") from None

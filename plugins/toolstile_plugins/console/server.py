"""Serving the console: by its own server on this machine, or beside another application."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import closing, nullcontext
from typing import Any, Final

import uvicorn
from starlette.routing import Mount

from toolstile_hookspecs import ConfigurationError, HostHandle
from toolstile_plugins.console.app import Console
from toolstile_plugins.console.settings import ConsoleSettings

LOOPBACK: Final = "127.0.0.1"
PATH: Final = "/console"
"""The path of the console beside others."""


def serve(host: HostHandle, port: int | None = None) -> int:
    """Serve the console until the process ends, by default on the port of the settings."""
    settings: ConsoleSettings = host.settings("console")
    port = settings.port if port is None else port
    try:
        listening = socket.create_server((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(
            f"The console cannot be served on port {port}: {why}. Choose another with --port; 0 is "
            "any free port."
        ) from None
    with closing(listening):
        url = f"http://{LOOPBACK}:{listening.getsockname()[1]}"
        config = uvicorn.Config(
            _told(host, url),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            # Streams of changes never end by themselves.
            timeout_graceful_shutdown=1,
        )
        server: Any = uvicorn.Server(config)
        server.capture_signals = nullcontext  # the command line has them
        asyncio.run(server.serve(sockets=[listening]))
    return 0


def beside_others(host: HostHandle, url: str) -> Mount:
    """Return the console for another server at an address, and print its first address."""
    return Mount(PATH, _told(host, f"{url}{PATH}"))


def _told(host: HostHandle, url: str) -> Console:
    console = Console(host, url, tell=lambda next_: _tell(f"It was opened. The next is {next_}"))
    _tell(f"The console is at {console.url}")
    return console


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()

"""Diagnosis of the servers behind the gateway, for `toolstile doctor`.

None of them is: `toolstile mcp check` connects to each.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from toolstile_hookspecs import Finding
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.directories import file_finding
from toolstile_plugins.mcp.gateway.errors import ServerFault
from toolstile_plugins.mcp.settings import McpSettings, ServerSettings, filled


def diagnosed(settings: McpSettings) -> Iterator[Finding]:
    """Yield what is the case with each server that is configured."""
    servers = {name: each for name, each in settings.servers.items() if each.enabled}
    if not servers:
        return
    if find_spec("mcp") is None:
        yield Finding.error(
            "MCP servers",
            "What speaks the protocol is not installed.",
            extra_remedy("mcp"),
        )
    yield file_finding(settings.pins, "what is known of MCP servers' tools")
    for name, each in servers.items():
        yield _of_server(name, each)


def _of_server(name: str, server: ServerSettings) -> Finding:
    subject, table = f"MCP server {name}", f"plugins.mcp.servers.{name}"
    try:
        _fill(server)
    except ServerFault as fault:
        return Finding.error(subject, f"Its {fault}.", f"Set the variable, or mend {table}.")
    if server.command is None:
        return Finding.ok(subject, "It is asked over HTTP; `toolstile mcp check` connects to it.")
    if server.cwd is not None and not Path(server.cwd).is_dir():
        return Finding.error(
            subject, "The directory it is started in is not there.", f"Mend {table}.cwd."
        )
    path = server.env.get("PATH", os.environ.get("PATH"))
    if shutil.which(server.command, path=path) is None:
        return Finding.error(
            subject,
            f"There is no program {server.command!r} that can be started.",
            f"Install it, or mend {table}.command.",
        )
    return Finding.ok(subject, "Its program is there; `toolstile mcp check` starts it.")


def _fill(server: ServerSettings) -> None:
    filled(server.url or "", "url")
    for each in server.args:
        filled(each, "args")
    for key, value in (*server.env.items(), *server.headers.items()):
        filled(value, key)

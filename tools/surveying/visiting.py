"""Connects to a server with `toolstile mcp check`, as its user would."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from surveying.installing import Installed

PATIENCE = 60
"""Seconds that a server has to start, on a machine that does other things."""


@dataclass(frozen=True)
class Visit:
    """The result of connecting to a server.

    Args:
        installed: The server.
        protocol: The version of the protocol that it speaks, or None.
        tools: The names that its tools have behind the gateway.
        left_out: Its tools that are not offered, and why.
        fault: Why it cannot be reached, or None.
    """

    installed: Installed
    protocol: str | None
    tools: tuple[str, ...]
    left_out: Mapping[str, str]
    fault: str | None


def visit(installed: Installed, folder: Path) -> Visit:
    """Connect to a server, from a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    # What a former run has found out is not to be believed.
    (folder / ".toolstile" / "mcp-tools.json").unlink(missing_ok=True)
    (folder / "toolstile.toml").write_text(_configuration(installed), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "toolstile", "mcp", "check", "--json"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        check=False,
    )
    if not done.stdout.strip():
        return Visit(installed, None, (), {}, done.stderr.strip() or "nothing was said")
    found = json.loads(done.stdout.splitlines()[0])
    return Visit(
        installed, found["protocol"], tuple(found["tools"]), found["leftOut"], found["error"]
    )


def _configuration(installed: Installed) -> str:
    name = json.dumps(installed.server.name)
    lines = [
        "[plugins.mcp]",
        f"wait = {PATIENCE}",
        f"[plugins.mcp.servers.{name}]",
        f"connect_timeout = {PATIENCE}",
        f"command = {json.dumps(str(installed.path))}",
        f"args = {json.dumps(list(installed.server.args))}",
        f"[plugins.mcp.servers.{name}.env]",
        *(f"{key} = {json.dumps(value)}" for key, value in installed.env.items()),
    ]
    return "\n".join(lines) + "\n"

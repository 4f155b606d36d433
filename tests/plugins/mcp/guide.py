"""The configurations that the guide for clients gives, as they stand there."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from executing.fences import Fence, fences
from executing.markers import markers

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "mcp.md"

#: The configuration of Toolstile that the guide's lines name.
PLACE = "/path/to/toolstile.toml"


def starting_point() -> str:
    """The configuration of Toolstile."""
    (text,) = (block.text for name, block in _marked("file") if name == "toolstile.toml")
    return text


def lines_of_clients() -> dict[str, str]:
    """The configuration of each client, by the client's name."""
    return {client: block.text for client, block in _marked("client")}


def _marked(name: str) -> list[tuple[str, Fence]]:
    """The blocks under a marker, each with the marker's value."""
    page = GUIDE.read_text(encoding="utf-8")
    return [(value, block) for block in fences(page) for value in markers(page, block.start)[name]]


def server_of(client: str) -> dict[str, Any]:
    """The server that the lines for a client describe."""
    text = lines_of_clients()[client]
    parsed = tomllib.loads(text) if client == "codex" else json.loads(text)
    (servers,) = parsed.values()
    return servers["toolstile"]


def configured(client: str, toolstile: Path, configuration: Path) -> dict[str, Any]:
    """The lines for a client, with the places where the program and its configuration are."""
    parsed = json.loads(lines_of_clients()[client])
    (servers,) = parsed.values()
    server = servers["toolstile"]
    assert server["command"] == "toolstile"
    server["command"] = str(toolstile)
    server["args"] = [str(configuration) if each == PLACE else each for each in server["args"]]
    return parsed

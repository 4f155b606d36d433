"""The configurations that the guide for clients gives, as they stand there."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "mcp-clients.md"

#: The configuration of Toolstile that the guide's lines name.
PLACE = "/path/to/toolstile.toml"

_BLOCK = re.compile(r"(?:<!-- client: ([\w-]+) -->\n)?```(json|toml)\n(.*?)```", re.DOTALL)


def starting_point() -> str:
    """The configuration of Toolstile."""
    blocks = _BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    (text,) = (text for client, language, text in blocks if not client and language == "toml")
    return text


def lines_of_clients() -> dict[str, str]:
    """The configuration of each client, by the client's name."""
    blocks = _BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    return {client: text for client, _, text in blocks if client}


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

"""How many hosts stand behind one another: one that is its own server would never end to start."""

from __future__ import annotations

import os
from typing import Final

from toolstile_plugins.mcp.gateway.faults import ServerFault

DEPTH: Final = "TOOLSTILE_MCP_DEPTH"
"""The environment variable that counts the hosts above a program."""
DEEPEST: Final = 4


def one_deeper() -> dict[str, str]:
    """Return what a program that is started here has to know of the hosts above it.

    Raises:
        ServerFault: When there are too many.
    """
    depth = os.environ.get(DEPTH, "")
    above = int(depth) if depth.isdecimal() else 0
    if above >= DEEPEST:
        raise ServerFault(
            f"{above} hosts stand behind one another already; if Toolstile is its own server here, "
            "take it out of the configuration"
        )
    return {DEPTH: str(above + 1)}

"""Faults of a server, in words for a model and a person."""

from __future__ import annotations

import os
from typing import Final, cast

from pydantic import ValidationError

from toolstile_hookspecs import ToolstileError
from toolstile_plugins.mcp.gateway.text import one_line

MOST: Final = 500


class ServerFault(ToolstileError):
    """A server cannot be used. Its text says which, why, and what to do."""


class ServerBroken(ToolstileError):
    """A connection had to be ended for what the server sent over it; the text says for what."""


def told(error: BaseException) -> str:
    """Return what went wrong, without what only programmers read.

    Of several errors at once the first one tells.
    """
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no program {error.filename}"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return one_line(f"it answered with what does not fit the protocol: {where}: {first['msg']}")
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return one_line(text, MOST).rstrip(".") or type(error).__name__


# --- Nested hosts


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

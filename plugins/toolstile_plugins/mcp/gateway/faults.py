"""What can be wrong with a server, as a model and a person are told."""

from __future__ import annotations

from typing import Final, cast

from pydantic import ValidationError

from toolstile_hookspecs import ToolstileError
from toolstile_plugins.mcp.gateway.wording import one_line

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

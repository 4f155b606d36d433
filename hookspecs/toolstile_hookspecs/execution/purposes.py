"""Purposes for which a host is opened, their lifespans, and the durability of its commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

Purpose = Literal["look", "call", "serve"]
"""`look` starts nothing, `call` all that calls need, `serve` ports for others, too."""
Durability = Literal["power", "process"]
"""`power`: a commit survives a loss of power. `process`: it survives the death of a process."""
EFFECT_FREE: Final = "toolstile_effect_free"


def effect_free(function: F) -> F:
    """Enter a `toolstile_lifespan` also for commands that only look.

    Such a lifespan opens no port, starts no thread or process, and writes no file while
    `host.purpose` is `"look"`. Commands that only look skip all other lifespans.

    Example:
        >>> from contextlib import closing
        >>> from toolstile_hookspecs import hookimpl
        >>> @hookimpl
        ... @effect_free
        ... def toolstile_lifespan(settings):
        ...     return closing(settings)
    """
    setattr(function, EFFECT_FREE, True)
    return function

"""Purposes for which a host is opened, and the lifespans that each of them enters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

Purpose = Literal["look", "call", "serve"]
"""`look` starts nothing, `call` all that calls need, `serve` ports for others, too."""
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

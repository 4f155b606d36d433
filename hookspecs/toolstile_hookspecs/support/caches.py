"""Process-wide caches of pure results; a fork and `Host.forget()` empty all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

OFF: Final = "TOOLSTILE_NO_CACHE"
"""The environment variable that switches the caches off, with the value 1."""

_empty: Final[list[Callable[[], None]]] = []


def cached(size: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that keeps the last results of a function by its arguments.

    The function must depend on its arguments alone, and its results must never change, because
    all hosts of the process share them. An exception is not kept, nor is a result of arguments
    without a hash.

    Args:
        size: The number of results that are kept.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kept: Any = lru_cache(size)(function)
        _empty.append(kept.cache_clear)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                hash((args, *kwargs.values()))
            except TypeError:
                return function(*args, **kwargs)
            if os.environ.get(OFF) == "1":
                return function(*args, **kwargs)
            result: R = kept(*args, **kwargs)
            return result

        return call

    return decorate


def forget() -> None:
    """Empty the caches of the process: the next host finds and builds everything again."""
    for empty in _empty:
        empty()


# A fork shares memory with its parent; what it finds again is its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)

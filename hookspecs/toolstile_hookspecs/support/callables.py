"""Functions as they are called: sync or async, below what wraps them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, cast


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Tell whether calling the function gives a coroutine, through partials and `__call__`."""
    inner = innermost(function)
    if inspect.iscoroutinefunction(inner):
        return True
    call = getattr(type(inner), "__call__", None)  # noqa: B004 - the method itself is wanted
    return not inspect.isroutine(inner) and inspect.iscoroutinefunction(call)


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what is called in the end; an async wrapper around it settles the matter."""
    inner: Any = inspect.unwrap(function, stop=inspect.iscoroutinefunction)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(cast("Any", inner.func), stop=inspect.iscoroutinefunction)
    return cast("Callable[..., Any]", inner)

"""Functions as they are called: sync or async, below what wraps them; fast constructors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, cast

T = TypeVar("T")


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


def filled_at_once(cls: type[T]) -> type[T]:
    """Have a frozen dataclass without slots write its fields to its dict, in half the time."""
    made: Any = cls
    given: dict[str, Any] = {"MISSING": MISSING}
    parameters, lines = ["self"], ["    fields = self.__dict__"]
    for each in fields(made):
        name = value = each.name
        if each.default_factory is not MISSING:
            given[f"make_{name}"] = each.default_factory
            value = f"make_{name}() if {name} is MISSING else {name}"
        given[f"default_{name}"] = each.default
        is_needed = each.default is MISSING and value == name
        parameters.append(name if is_needed else f"{name}=default_{name}")
        lines.append(f"    fields[{name!r}] = {value}")
    source = "\n".join((f"def fill({', '.join(parameters)}):", *lines))
    exec(source, given)  # noqa: S102 - made of names of ours
    made.__init__ = functools.wraps(made.__init__)(given["fill"])
    return cls

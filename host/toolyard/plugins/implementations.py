"""A plugin's implementation of a hook, ready to be called with the hook's arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import pluggy


@dataclass(frozen=True, slots=True)
class Implementation:
    """One implementation of a hook.

    Args:
        hook: The hook.
        plugin: The plugin that has it.
        call: Takes all the hook's arguments, positionally, in the specification's order.
        wants_params: Whether it is given the params, which may then have to be copied.
        wrapper: Whether `call` returns a generator that goes around the others.
    """

    hook: str
    plugin: str
    call: Callable[..., Any]
    wants_params: bool
    wrapper: bool


def implementation(found: pluggy.HookImpl, hook: str, arguments: tuple[str, ...]) -> Implementation:
    """Return what pluggy has found, ready to be called with the hook's arguments."""
    return Implementation(
        hook=hook,
        plugin=found.plugin_name,
        call=_adapted(found.function, tuple(found.argnames), arguments),
        wants_params="params" in found.argnames,
        wrapper=found.wrapper,
    )


def _adapted(
    function: Callable[..., Any], wanted: tuple[str, ...], given: tuple[str, ...]
) -> Callable[..., Any]:
    if wanted == given:
        return function
    return _picking(wanted, given)(function)


@lru_cache(maxsize=256)
def _picking(
    wanted: tuple[str, ...], given: tuple[str, ...]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Written out, it costs one more call; picking from *args would cost as much as four. All
    # names are arguments of our specifications, so nothing else gets into the source.
    source = f"lambda function: lambda {', '.join(given)}: function({', '.join(wanted)})"
    return cast("Callable[[Callable[..., Any]], Callable[..., Any]]", eval(source, {}))  # noqa: S307

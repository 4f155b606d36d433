"""A plugin's implementation of a hook, ready to be called with the hook's arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import pluggy

from toolstile_hookspecs import Tool
from toolstile_hookspecs.markers import CONCERNS

STAGES: Final = frozenset(
    {
        "toolstile_trace",
        "toolstile_lookup",
        "toolstile_parse",
        "toolstile_check",
        "toolstile_snapshot",
        "toolstile_execute",
        "toolstile_render",
        "toolstile_on_result",
        "toolstile_rollback",
        "toolstile_telemetry",
    }
)
"""Hooks of every call: implementations that want their settings have them bound."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """One implementation of a hook.

    Args:
        hook: The hook.
        plugin: The plugin that has it.
        call: Takes all the hook's arguments, positionally, in the specification's order.
        wants_params: Whether it is given the params, which may then have to be copied.
        wrapper: Whether `call` returns a generator that goes around the others.
        concerns: Tells which tools it is asked for; None for all.
        wants_changes: Whether it is given what the call did to the session, which then has to
            be found out.
    """

    hook: str
    plugin: str
    call: Callable[..., Any]
    wants_params: bool
    wrapper: bool
    concerns: Callable[[Tool[Any, Any]], bool] | None = None
    wants_changes: bool = False


def implementation(
    found: pluggy.HookImpl, hook: str, arguments: tuple[str, ...], settings: object = None
) -> Implementation:
    """Return what pluggy has found, ready to be called with the hook's arguments.

    Args:
        found: What pluggy has found.
        hook: The hook.
        arguments: The names of the hook's arguments, in the specification's order.
        settings: The plugin's own, for hooks that are called without them, see `STAGES`.
    """
    if hook in STAGES:
        arguments = tuple(name for name in arguments if name != "settings")
    wants_changes = "changes" in found.argnames
    if not wants_changes:
        arguments = tuple(name for name in arguments if name != "changes")
    return Implementation(
        hook=hook,
        plugin=found.plugin_name,
        call=_adapted(found.function, tuple(found.argnames), arguments, settings),
        wants_params="params" in found.argnames,
        wrapper=found.wrapper,
        concerns=getattr(found.function, CONCERNS, None),
        wants_changes=wants_changes,
    )


def _adapted(
    function: Callable[..., Any], wanted: tuple[str, ...], given: tuple[str, ...], settings: object
) -> Callable[..., Any]:
    if wanted == given:
        return function
    return _picking(wanted, given)(function, settings)


@lru_cache(maxsize=256)
def _picking(
    wanted: tuple[str, ...], given: tuple[str, ...]
) -> Callable[[Callable[..., Any], object], Callable[..., Any]]:
    # Written out, it costs one more call; picking from *args would cost as much as four. All
    # names are arguments of our specifications, so nothing else gets into the source.
    source = f"lambda function, settings: lambda {', '.join(given)}: function({', '.join(wanted)})"
    picking = eval(source, {})  # noqa: S307 - made of names of ours
    return cast("Callable[[Callable[..., Any], object], Callable[..., Any]]", picking)

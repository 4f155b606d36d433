"""The typed face of pluggy, which registers, orders and validates implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, Final, cast

import pluggy

from toolstile_hookspecs import Tool, hooks
from toolstile_hookspecs.execution.options import EFFECT_FREE
from toolstile_hookspecs.markers import CONCERNS, HOOK_PREFIX, PROJECT


class HookManager(pluggy.PluginManager):
    """Registers plugins, and gives their implementations in the order of calling."""

    def __init__(self, specifications: ModuleType = hooks) -> None:
        super().__init__(PROJECT)
        self.add_hookspecs(specifications)
        self.arguments: Final = {
            name: () if hook.spec is None else tuple(hook.spec.argnames)
            for name, hook in vars(self.hook).items()
        }

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        """Return what `hookimpl` has marked an attribute with, or None for an unmarked one.

        Names without the hooks' prefix are passed over: pluggy would look up each, slowly.
        """
        return super().parse_hookimpl_opts(plugin, name) if name.startswith(HOOK_PREFIX) else None

    def register(self, plugin: object, name: str | None = None) -> str | None:
        """Register a plugin whole or not at all, also where warnings are errors."""
        try:
            return super().register(plugin, name)
        except Warning:
            self.unregister(name=name)
            raise

    def in_order(
        self, hook: str, settings: Mapping[str, object], states: Mapping[str, object]
    ) -> Iterator[Implementation]:
        """Yield a hook's implementations in the order of calling, wrappers first.

        Each has the settings and the state of its plugin.
        """
        caller: pluggy.HookCaller = getattr(self.hook, hook)
        for found in reversed(caller.get_hookimpls()):
            own = [each.get(found.plugin_name) for each in (settings, states)]
            yield implementation(found, hook, self.arguments[hook], *own)


@dataclass(frozen=True, slots=True)
class Implementation:
    """One implementation of a hook.

    Args:
        hook: The hook.
        plugin: The plugin that has it.
        call: Takes the hook's arguments positionally, in the specification's order, without the
            settings and the state, which it has.
        wants_params: Whether it is given the params, which may then have to be copied.
        wrapper: Whether `call` returns a generator that goes around the others.
        applies_to: Tells which tools it is asked for; None for all.
        recalls: Tells whether it will answer a call with an earlier result.
        wants_changes: Whether it is given what the call did to the session, which then has to
            be found out.
        effect_free: Whether it is a lifespan that is entered while a command only looks.
    """

    hook: str
    plugin: str
    call: Callable[..., Any]
    wants_params: bool
    wrapper: bool
    applies_to: Callable[[Tool[Any, Any]], bool] | None = None
    recalls: Callable[..., Any] | None = None
    wants_changes: bool = False
    effect_free: bool = False

    @property
    def title(self) -> str:
        """The name in logs."""
        return f"Plugin {self.plugin}"


def implementation(
    found: pluggy.HookImpl, hook: str, arguments: tuple[str, ...], *own: object
) -> Implementation:
    """Return an implementation that pluggy has found, bound to its settings and its state."""
    wants_changes = "changes" in found.argnames
    unbound = {"settings", "state"} if wants_changes else {"settings", "state", "changes"}
    arguments = tuple(name for name in arguments if name not in unbound)
    function, wanted = found.function, tuple(found.argnames)
    if wanted != arguments:
        function = _picking(wanted, arguments)(function, *own)
    applies_to, recalls = getattr(found.function, CONCERNS, (None, None))
    return Implementation(
        hook=hook,
        plugin=found.plugin_name,
        call=function,
        wants_params="params" in found.argnames,
        wrapper=found.wrapper,
        applies_to=applies_to,
        recalls=recalls,
        wants_changes=wants_changes,
        effect_free=getattr(found.function, EFFECT_FREE, False),
    )


@lru_cache(maxsize=256)
def _picking(wanted: tuple[str, ...], given: tuple[str, ...]) -> Callable[..., Callable[..., Any]]:
    # Written out, it costs one more call; picking from *args would cost as much as four. All
    # names are arguments of our specifications, so nothing else gets into the source.
    inner = f"lambda {', '.join(given)}: function({', '.join(wanted)})"
    picking = eval(f"lambda function, settings, state: {inner}", {})  # noqa: S307 - names of ours
    return cast("Callable[..., Callable[..., Any]]", picking)

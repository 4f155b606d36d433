"""The typed face of pluggy, which registers, orders and validates implementations."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Final, cast

import pluggy

from toolstile_hookspecs import hooks
from toolstile_hookspecs.markers import HOOK_PREFIX, PROJECT


class _PrefixManager(pluggy.PluginManager):
    """Looks at names with the hooks' prefix only: pluggy looks up every name, slowly."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        if not name.startswith(HOOK_PREFIX):
            return None
        return super().parse_hookimpl_opts(plugin, name)


class HookManager:
    """Registers plugins with pluggy, and gives their implementations in order of calling."""

    def __init__(self, specifications: ModuleType = hooks) -> None:
        self._pluggy: Final = _PrefixManager(PROJECT)
        self._pluggy.add_hookspecs(specifications)
        self.arguments: Final = {
            name: _arguments(caller) for name, caller in vars(self._pluggy.hook).items()
        }

    def options(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        """Return what `hookimpl` has marked an attribute with, or None for an unmarked one."""
        return self._pluggy.parse_hookimpl_opts(plugin, name)

    def register(self, plugin: object, name: str) -> None:
        """Register a plugin's implementations.

        Raises:
            ValueError: When the object is registered already.
            pluggy.PluginValidationError: When an implementation does not fit.
            ContractDeprecationWarning: Where warnings are errors, for what is deprecated.
        """
        try:
            self._pluggy.register(plugin, name)
        except Warning:
            # By then it is registered, with some of its hooks.
            self._pluggy.unregister(name=name)
            raise

    def unregister(self, name: str) -> None:
        """Drop a plugin's implementations."""
        self._pluggy.unregister(name=name)

    def name_of(self, plugin: object) -> str | None:
        """Return the name an object is registered under, or None."""
        return self._pluggy.get_name(plugin)

    def deprecations(self, name: str) -> tuple[str, ...]:
        """Return what is deprecated of that which a plugin implements, a sentence or two each."""
        return tuple(
            dict.fromkeys(
                str(warning)
                for hook, caller in vars(self._pluggy.hook).items()
                for found in caller.get_hookimpls()
                if found.plugin_name == name
                for warning in self._warnings(hook, found)
            )
        )

    def _warnings(self, hook: str, found: pluggy.HookImpl) -> Iterable[Warning]:
        spec = cast("pluggy.HookCaller", getattr(self._pluggy.hook, hook)).spec
        if spec is None:
            return
        if spec.warn_on_impl:
            yield spec.warn_on_impl
        for argument, warning in (spec.warn_on_impl_args or {}).items():
            if argument in found.argnames:
                yield warning

    def in_order(self, hook: str) -> Iterable[pluggy.HookImpl]:
        """Return a hook's implementations as they are to be called, wrappers first."""
        caller: pluggy.HookCaller = getattr(self._pluggy.hook, hook)
        return reversed(caller.get_hookimpls())


def _arguments(caller: pluggy.HookCaller) -> tuple[str, ...]:
    return () if caller.spec is None else tuple(caller.spec.argnames)

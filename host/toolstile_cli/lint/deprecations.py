"""Uses of what a later version of the contract does not have."""

from __future__ import annotations

from toolstile.plugins.registry import Plugins


def deprecated_uses(plugins: Plugins, name: str) -> tuple[str, ...]:
    """Return the warnings for the deprecated hooks and arguments that a plugin implements."""
    warnings: list[Warning] = []
    for caller in vars(plugins.manager.hook).values():
        for found in caller.get_hookimpls():
            if found.plugin_name != name or caller.spec is None:
                continue
            if caller.spec.warn_on_impl:
                warnings.append(caller.spec.warn_on_impl)
            by_argument: dict[str, Warning] = caller.spec.warn_on_impl_args or {}
            warnings += [by_argument[key] for key in by_argument if key in found.argnames]
    return tuple(dict.fromkeys(map(str, warnings)))

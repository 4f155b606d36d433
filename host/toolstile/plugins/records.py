"""A plugin as the registry keeps it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

from toolstile.plugins.contributions import Contribution
from toolstile.plugins.faults import PluginFault
from toolstile.plugins.places import place_of
from toolstile.plugins.reports import PluginReport, Source, Status, described
from toolstile_hookspecs.markers import HOOK_PREFIX


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a plugin comes from.

    Args:
        name: Its name.
        source: How it was met.
        distribution: The distribution that brings it, if it comes from one.
        version: That distribution's version.
        location: The entry point's value, or the file.
    """

    name: str
    source: Source
    distribution: str | None = None
    version: str | None = None
    location: str | None = None

    def __str__(self) -> str:
        """Return its name with where it comes from."""
        return described(self.name, self.distribution, self.version)

    def refused(self, status: Status, fault: PluginFault) -> PluginReport:
        """Return the report of a plugin that is not taken."""
        return PluginReport(
            self.name,
            self.source,
            status,
            self.distribution,
            self.version,
            self.location,
            fault=fault.cause,
            remedy=fault.remedy,
            misconfigured=fault.misconfigured,
            place=place_of(fault.__cause__),
        )


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A registered plugin.

    Args:
        origin: Where it comes from.
        plugin: The module or object.
        hooks: The hooks it implements.
        contribution: What it offers.
        complaints: By hook, what was wrong with its last answer after the registration.
        deprecations: What it implements that a later version of the contract does not have.
    """

    origin: Origin
    plugin: object
    hooks: tuple[str, ...]
    contribution: Contribution
    complaints: Mapping[str, tuple[PluginFault, ...]] = field(
        default_factory=dict[str, tuple[PluginFault, ...]]
    )
    deprecations: tuple[str, ...] = ()

    def report(self) -> PluginReport:
        """Return what is told of it."""
        faults = [fault for each in self.complaints.values() for fault in each]
        if not self.hooks:
            faults.append(PluginFault("It implements no hook.", _where_hooks_stand(self.plugin)))
        return PluginReport(
            self.origin.name,
            self.origin.source,
            "loaded",
            self.origin.distribution,
            self.origin.version,
            self.origin.location,
            fault=" ".join(fault.cause for fault in faults) or None,
            remedy=" ".join(dict.fromkeys(fault.remedy for fault in faults)) or None,
            place=place_of(faults[0].__cause__) if len(faults) == 1 else None,
            hooks=self.hooks,
            tools=tuple(tool.name for tool in self.contribution.tools),
            summary=_summary(self.plugin),
            deprecations=self.deprecations,
        )


def default_name(plugin: object) -> str:
    """Return the name of a plugin that is registered without one."""
    if isinstance(plugin, (ModuleType, type)):
        return plugin.__name__
    return type(plugin).__name__


def _where_hooks_stand(plugin: object) -> str:
    if isinstance(plugin, ModuleType):
        for each in vars(plugin).values():
            if isinstance(each, type) and any(name.startswith(HOOK_PREFIX) for name in vars(each)):
                return (
                    f"Those of its class {each.__name__} are methods; write them as functions of "
                    "the module, without self."
                )
    return (
        "Mark functions that are named as hooks are with @hookimpl, or name the module that has "
        "them."
    )


def _summary(plugin: object) -> str:
    return (inspect.getdoc(plugin) or "").partition("\n")[0].strip()

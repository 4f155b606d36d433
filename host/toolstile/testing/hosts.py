"""Hosts with chosen plugins, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from types import ModuleType
from typing import Any, Final

from toolstile.host import Host
from toolstile.plugins.discovery import installed
from toolstile.plugins.reports import PluginSource
from toolstile.settings import Settings
from toolstile.settings.model import folded
from toolstile_hookspecs import PluginError, Tool
from toolstile_hookspecs.support.text import nearest

Tables = Mapping[str, Mapping[str, Any]]
_SEALS: Final = ("approval_key", "approval_spent")


class Hosts:
    """Opens hosts with chosen plugins and no others; they are closed with the test.

    No configuration file is read, and nothing that is installed is loaded unless it is named.

    Example:
        >>> host = toolstile_host("vfs", my_plugin, settings={"vfs": {}})  # doctest: +SKIP
    """

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __call__(
        self, *plugins: object, settings: Tables | Settings | None = None, **options: Any
    ) -> Host:
        """Open a host.

        Args:
            plugins: Modules, objects, and names of installed plugins; or single tools. A module
                that is an installed plugin goes by that plugin's name.
            settings: The plugins' tables by name, or the settings as a whole.
            options: As `Host` takes them: `policies`, `approver`, `clock`, `timeout` and so on; and
                `approval_key` with `approval_spent`, for hosts that resume each other's calls.

        Raises:
            PluginError: A plugin is wrong or not installed; names the cause and the remedy.
            ConfigurationError: When a setting does not fit.
        """
        there = {found.name: found for found in installed()}
        chosen, objects, tools = _sorted(plugins, there)
        made = settings if isinstance(settings, Settings) else Settings(plugins=settings or {})
        seals = {name: options.pop(name) for name in _SEALS if name in options}
        made = made.replaced(**seals) if seals else made
        host = Host(
            settings=made,
            discover=chosen,
            plugins=objects,
            tools=[*tools, *options.pop("tools", ())],
            **options,
        )
        # No plugin reads a table whose name is misspelt, or whose plugin was not given.
        given = [each.name for each in host.plugins.reports if each.status != "absent"]
        spelt = {folded(each) for each in given}
        for name in (name for name in made.plugins if folded(name) not in spelt):
            near = nearest(name, given)
            hint = f"Did you mean {near!r}?" if near else "Give it, too, or leave the table out."
            host.close()
            msg = f"The settings have a table for {name!r}, and no such plugin was given. {hint}"
            raise PluginError(msg)
        faults = [
            str(report)
            for report in host.plugins.reports
            if report.fault is not None and report.status != "blocked"
        ]
        if faults:
            host.close()
            raise PluginError(" ".join(faults))
        return self._stack.enter_context(host)

    def close(self) -> None:
        """Close the hosts, the last first."""
        self._stack.close()


def with_plugin_table(
    settings: Tables | Settings | None, plugin: str, table: Mapping[str, Any]
) -> Settings:
    """Return settings with further keys in a plugin's table."""
    made = settings if isinstance(settings, Settings) else Settings(plugins=settings or {})
    tables = {**made.plugins, plugin: {**made.table_of(plugin), **table}}
    return made.replaced(plugins=tables)


def _sorted(
    plugins: Iterable[object], there: Mapping[str, PluginSource]
) -> tuple[set[str], list[object], list[Tool[Any, Any]]]:
    names_of = {found.location: name for name, found in there.items()}
    chosen: set[str] = set()
    objects: list[object] = []
    tools: list[Any] = []
    for each in plugins:
        if isinstance(each, str):
            chosen.add(_installed(each, there))
        elif isinstance(each, ModuleType) and each.__name__ in names_of:
            chosen.add(names_of[each.__name__])
        elif isinstance(each, Tool):
            tools.append(each)
        else:
            objects.append(each)
    return chosen, objects, tools


def _installed(name: str, there: Mapping[str, PluginSource]) -> str:
    if name in there:
        return name
    near = nearest(name, there)
    hint = f"Did you mean {near!r}?" if near else f"There are {', '.join(sorted(there))}."
    raise PluginError(
        f"No plugin {name!r} is installed. {hint} A plugin of a project that is being written is "
        "there after `pip install -e .`."
    )

"""Takes plugins whole or not at all, and gives them up again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pluggy

from toolstile.plugins.conflicts import refuse_clashes
from toolstile.plugins.contributions import Contribution, Implementations, collect, with_sections
from toolstile.plugins.hook_manager import HookManager, Implementation, implementation
from toolstile.plugins.inspection import hooks_of
from toolstile.plugins.plugin_errors import PluginFault, one_line
from toolstile.plugins.reports import LoadedPlugin, PluginSource
from toolstile.settings import Settings
from toolstile_hookspecs import ContractDeprecationWarning


class LoadedPlugins:
    """The plugins that are registered, by name, in the order of registration.

    One thread at a time changes it; its owner sees to that.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._manager = HookManager()
        self.records: dict[str, LoadedPlugin] = {}

    @property
    def hooks(self) -> tuple[str, ...]:
        """The names of all hooks there are."""
        return tuple(self._manager.arguments)

    def take(self, origin: PluginSource, plugin: object) -> LoadedPlugin:
        """Register a plugin and ask it for all it offers.

        Raises:
            PluginFault: For anything wrong with it; then nothing of it stays.
        """
        self._refuse_taken(origin, plugin)
        hooks = self._enter(origin.name, plugin)
        try:
            contribution = collect(origin.name, self._own(origin.name), self._settings)
            refuse_clashes(origin.name, contribution, self.records.values())
        except BaseException:
            self._manager.unregister(name=origin.name)
            raise
        deprecations = self._manager.deprecations(origin.name)
        record = LoadedPlugin(origin, plugin, hooks, contribution, deprecations=deprecations)
        self.records[origin.name] = record
        return record

    def configure(self, settings: Settings, names: Iterable[str]) -> None:
        """Ask some plugins again for all they offer, with other settings.

        Raises:
            PluginFault: For anything wrong with one of them; then nothing changes.
        """
        before, records = self._settings, self.records
        self._settings, self.records = settings, dict(records)
        try:
            for name in names:
                self.put(name, collect(name, self._own(name), settings))
        except BaseException:
            self._settings, self.records = before, records
            raise

    def drop(self, name: str) -> None:
        """Give up a plugin with all it offers."""
        del self.records[name]
        self._manager.unregister(name=name)

    def offered_now(self, record: LoadedPlugin) -> Contribution:
        """Ask a plugin for its sections again; changes nothing."""
        return with_sections(record.contribution, self._own(record.origin.name))

    def put(self, name: str, contribution: Contribution) -> None:
        """Replace what a plugin offers, unless another plugin has some of it."""
        refuse_clashes(name, contribution, self.records.values())
        self.records[name] = replace(self.records[name], contribution=contribution)

    def complain(self, name: str, hook: str, faults: Iterable[PluginFault]) -> None:
        """Note what is wrong with a plugin's last answer to a hook; nothing, if it is right."""
        record = self.records.get(name)
        if record is not None:
            complaints = {**record.complaints, hook: tuple(faults)}
            self.records[name] = replace(record, complaints=complaints)

    def implementations(self, hook: str) -> Iterator[Implementation]:
        """Yield a hook's implementations in the order of calling, wrappers first."""
        arguments = self._manager.arguments[hook]
        for found in self._manager.in_order(hook):
            record = self.records.get(found.plugin_name)
            settings = record.contribution.settings if record is not None else None
            yield implementation(found, hook, arguments, settings)

    def _own(self, name: str) -> Implementations:
        return lambda hook: [each for each in self.implementations(hook) if each.plugin == name]

    def _enter(self, name: str, plugin: object) -> tuple[str, ...]:
        try:
            hooks = hooks_of(plugin, self._manager)
            self._manager.register(plugin, name)
        except PluginFault:
            raise
        except pluggy.PluginValidationError as error:
            cause = f"It cannot be registered: {one_line(error)}."
            raise PluginFault(cause, "Fix the hook function.") from error
        except ContractDeprecationWarning as warning:
            cause = f"It uses what is deprecated, and warnings are errors here: {warning}"
            raise PluginFault(cause, "Fix it, or let this warning be none.") from warning
        except Exception as error:
            cause = f"Its hook functions cannot be read: {one_line(error)}."
            raise PluginFault(cause, "Fix the plugin.") from error
        return hooks

    def _refuse_taken(self, origin: PluginSource, plugin: object) -> None:
        there = self.records.get(origin.name)
        if there is not None:
            at = there.origin
            whence = "Python" if at.source == "python" else f"the {at.source} {at.location}"
            raise PluginFault(
                f"The name {origin.name!r} is taken by plugin {there.origin}, "
                f"registered from {whence}.",
                "Give it another name, or unregister the other first.",
            )
        other = self._manager.get_name(plugin)
        if other is not None:
            raise PluginFault(
                f"The same plugin is registered already as {other!r}.",
                "Register it once; a second instance must not equal the first.",
            )

"""All plugins of a host: found, registered, reported, and asked for their offers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

from toolstile.plugins.contributions import (
    ON_REQUEST,
    RENAME,
    Contribution,
    Implementations,
    collect,
    extensions,
    host_keys,
    with_sections,
)
from toolstile.plugins.discovery import (
    forget,
    installed,
    load_entry_point,
    load_file,
    refuse_newer,
    refuse_unknown,
)
from toolstile.plugins.inspection import (
    HookManager,
    Implementation,
    refuse_hookless,
    register_hooks,
)
from toolstile.plugins.offered_tools import circle_among, serving_wire_names
from toolstile.plugins.plugin_errors import NO_PROCESS, PluginFault, in_configuration
from toolstile.plugins.reports import LoadedPlugin, PluginReport, PluginSource
from toolstile.settings import Settings
from toolstile.settings.model import folded
from toolstile_hookspecs import (
    Approver,
    Binding,
    Command,
    ConfigurationError,
    Dialect,
    PluginError,
    Section,
    Tool,
)
from toolstile_hookspecs.execution.prompt_parts import two_places
from toolstile_hookspecs.support.deprecation import REQUIRES
from toolstile_hookspecs.support.text import nearest, suggest

Calls = Mapping[str, tuple[Implementation, ...]]
Tools = Mapping[str, Tool[Any, Any]]


@dataclass(frozen=True, slots=True)
class RegistrySnapshot:
    """The snapshot that readers see; it is replaced as a whole and never changed."""

    generation: int  # a number that grows with every change
    implementations: Calls  # by hook, in the order of calling
    wrappers: Calls  # by hook, the outermost first
    sections: tuple[Section, ...]  # of all plugins, in the order of registration
    # Of all plugins, likewise; a plugin's state stands for its own binding of the type.
    bindings: tuple[Binding[Any], ...]
    providers: Mapping[type[Any], str]  # the plugin that has bound it, by kind of resource
    # The class of each kind of policy, or its place, `module:Class`.
    policies: Mapping[str, type[Any] | str]
    tools: Tools  # by name, in order
    wire: Tools  # by wire name, where no tool has it as its name
    owners: Mapping[str, str]  # the plugin of each tool, by the tool's name
    # How a person asks for tools that are offered on request only, by their names.
    withheld: Mapping[str, str]


def snapshot_of(
    records: Mapping[str, LoadedPlugin],
    manager: HookManager,
    generation: int,
    states: Mapping[str, object],
) -> RegistrySnapshot:
    """Return the present offers of the loaded plugins, their hooks bound to these states."""
    offered = {name: record.contribution for name, record in records.items()}
    settings = {name: offer.settings for name, offer in offered.items()}
    calls = {hook: tuple(manager.in_order(hook, settings, states)) for hook in manager.arguments}
    bindings = {each.kind: each for offer in offered.values() for each in offer.bindings}
    providers = {each.kind: name for name, offer in offered.items() for each in offer.bindings}
    types = [type(state) for state in states.values()]
    for name, state in states.items():
        kind = type(state)
        # A type that is built in, or that two plugins have, does not name one object.
        is_own = providers.get(kind, name) == name and types.count(kind) == 1
        if is_own and kind.__module__ != "builtins":
            bindings[kind] = Binding[Any].instance(kind, state)
    # Wire names of plugins with a prefix give way.
    settled = sorted(offered.values(), key=lambda each: bool(each.prefix))
    return RegistrySnapshot(
        generation=generation,
        implementations=_only(calls, wrappers=False),
        wrappers=_only(calls, wrappers=True),
        sections=tuple(section for offer in offered.values() for section in offer.sections),
        bindings=tuple(bindings.values()),
        providers=MappingProxyType(providers),
        policies=MappingProxyType(
            {kind: made for offer in offered.values() for kind, made in offer.policies.items()}
        ),
        tools={tool.name: tool for offer in offered.values() for tool in offer.tools},
        wire=serving_wire_names(tool for offer in settled for tool in offer.tools),
        owners={tool.name: name for name, offer in offered.items() for tool in offer.tools},
        withheld={name: how for each in settled for name, how in each.withheld.items()},
    )


def _only(calls: Calls, *, wrappers: bool) -> Calls:
    return {
        hook: tuple(call for call in found if call.wrapper is wrappers)
        for hook, found in calls.items()
    }


@dataclass(frozen=True, slots=True, repr=False)
class PluginCatalog:
    """The catalog as hooks and hosts see it; always up to date.

    `current` returns the valid snapshot, `renew` asks a plugin for its sections again.
    """

    current: Callable[[], RegistrySnapshot]
    renew: Callable[[str], None]

    def get(self, name: str) -> Tool[Any, Any] | None:
        known = self.current()
        return known.tools.get(name) or known.wire.get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self.current().tools)

    def plugin_of(self, name: str) -> str | None:
        tool = self.get(name)
        return None if tool is None else self.current().owners.get(tool.name)

    def invalidate(self, plugin: str) -> None:
        """Ask a plugin for its sections again; after a `PluginError` it keeps the tools it had."""
        self.renew(plugin)

    def __len__(self) -> int:
        return len(self.current().tools)

    def __iter__(self) -> Iterator[Tool[Any, Any]]:
        return iter(tuple(self.current().tools.values()))


log = logging.getLogger(__name__)


class Plugins:
    """The plugins of one host.

    Changes are made one at a time. Reading takes no lock, and sees a change whole or not
    at all.

    Example:
        >>> from toolstile.settings import Settings
        >>> plugins = Plugins(settings=Settings(), block=["podman"])
        >>> plugins.catalog.names()
        ()
    """

    def __init__(
        self, *, settings: Settings, block: Collection[str] = (), bound: Iterable[type[Any]] = ()
    ) -> None:
        self.settings = settings
        self._bound = frozenset(bound)
        self._block = tuple(dict.fromkeys((*block, *settings.block)))
        self._lock = threading.RLock()
        self.manager = HookManager()
        self._records: dict[str, LoadedPlugin] = {}
        self.states: dict[str, object] = {}
        self._refused: list[PluginReport] = []
        self._discovered = False
        self._asked: frozenset[str] = frozenset()
        self._installed: frozenset[str] = frozenset()
        self._dialects: tuple[int, Mapping[str, Dialect]] | None = None
        self.view = snapshot_of({}, self.manager, 0, {})  # all that plugins offer at this time
        self.catalog = PluginCatalog(lambda: self.view, self._renew)

    def discover(self, only: Collection[str] | None = None) -> None:
        """Register the plugins of the installed distributions, then the configured files.

        Toolstile's own come first, the others by name. Each is loaded by itself; a fault of one
        becomes its report. Plugins that are registered already stay unchanged. After a
        `PluginError`, for one of `only` that is not installed, nothing has changed.
        """
        every = installed()
        self._installed = frozenset(found.name for found in every)
        self._asked = frozenset(only or ())
        for name in only or ():
            if name not in self._installed:
                those = f"Those are: {', '.join(sorted(self._installed))}."
                remedy = _near(name, self._installed, those)
                raise PluginError(f"There is no installed plugin {name!r}. {remedy}")
        with self._lock:
            self._refused = [report for report in self._refused if report.source == "python"]
            met: dict[str, PluginSource] = {}
            chosen = [found for found in every if only is None or found.name in only]
            # Some files are others by another path.
            files = {path.resolve(): path for path in reversed(self.settings.plugin_files)}
            for origin in (*chosen, *map(_file, reversed(files.values()))):
                self._meet(origin, met)
            self._discovered = True
            self._publish()

    def register(
        self,
        plugin: object,
        name: str | None = None,
        *,
        distribution: str | None = None,
        version: str | None = None,
    ) -> PluginReport:
        """Register a module or object; a plugin that is switched off is only reported.

        Its name is the module's or the class's, unless it is given another. After a `PluginError`,
        with cause and remedy, nothing of it stays.
        """
        refuse_hookless(plugin)
        named = plugin if isinstance(plugin, (ModuleType, type)) else type(plugin)
        origin = PluginSource(name or named.__name__, "python", distribution, version)
        report = self._register(origin, plugin)
        if report.status == "loaded" and not report.hooks:
            log.warning("%s", report)
        return report

    def register_file(self, path: Path) -> PluginReport:
        """Register a single Python file by its stem; after a `PluginError` nothing of it stays."""
        return self._register(_file(path))

    def unregister(self, name: str) -> None:
        with self._lock:
            record = self.loaded(name)
            del self._records[name]
            self.states.pop(name, None)
            self.manager.unregister(name=name)
            if record.origin.source == "file":
                forget(record.plugin)
            self._publish()

    def hold(self, states: Mapping[str, object]) -> None:
        """Bind the hooks to the objects that the plugins' lifespans have yielded."""
        with self._lock:
            new = {name: state for name, state in states.items() if state is not None}
            if new or self.states:
                self.states = new
                self._publish()

    def configure(self, settings: Settings) -> None:
        """Let other settings hold, asking the plugins whose tables change for all they offer.

        Loaded plugins stay loaded. After a `ConfigurationError`, for a table that does not fit its
        plugin, or a `PluginError` of the plugin itself, nothing has changed.
        """
        with self._lock:
            before = dict(self._records)
            try:
                for name, record in before.items():
                    both = (self.settings, settings)
                    was, new = ((s.table_name(name), s.table_of(name), s.durability) for s in both)
                    if was != new:
                        self._put(name, self._collect(record.origin, record.plugin, settings))
            except BaseException as fault:
                self._records = before
                if not isinstance(fault, PluginFault):
                    raise
                if isinstance(fault.__cause__, ConfigurationError):
                    raise fault.__cause__ from None
                error = fault.as_error("A plugin does not take its new settings")
                raise error from fault.__cause__
            self.settings = settings
            self._publish()

    @property
    def reports(self) -> tuple[PluginReport, ...]:
        """The reports of all plugins: loaded, refused and merely configured ones."""
        with self._lock:
            loaded = [record.report() for record in self._records.values()]
            return (*loaded, *self._refused, *self._absent())

    def implementations(self, hook: str) -> tuple[Implementation, ...]:
        return self.view.implementations[hook]

    def wrappers(self, hook: str) -> tuple[Implementation, ...]:
        return self.view.wrappers[hook]

    def settings_of(self, plugin: str) -> Any:
        return self.loaded(plugin).contribution.settings

    def absent_tools(self) -> Mapping[str, str | None]:
        """Return how to ask for the tools that are not there; None for names that come later."""
        awaited = self._told("awaited_tools").values()
        return {**dict.fromkeys(name for each in awaited for name in each), **self.view.withheld}

    def tools_without_process(self) -> list[str]:
        """Return a line for each tool whose handler no plugin runs in the process it asks for."""
        hooks = self.implementations("toolstile_execute")
        return [
            f"{tool.name} cannot run: {NO_PROCESS}."
            for tool in self.catalog
            if tool.isolation == "process"
            and tool.handler is not None
            and not any(hook.applies_to is None or hook.applies_to(tool) for hook in hooks)
        ]

    def governed_tools(self) -> dict[str, set[str]]:
        """Return by their tables the names of tools that plugins take away or ask about."""
        return {f"[plugins.{name}]": {*told} for name, told in self._told("governed_tools").items()}

    def _told(self, names: str) -> dict[str, Iterable[str]]:
        """Return by plugin the names in an attribute of its state, else of its settings."""
        # Copies, because a lifespan may begin or end on another thread meanwhile.
        told = {name: record.contribution.settings for name, record in {**self._records}.items()}
        told |= {name: state for name, state in {**self.states}.items() if hasattr(state, names)}
        return {name: getattr(each, names, ()) for name, each in told.items()}

    def dialects(self) -> Mapping[str, Dialect]:
        """Return the dialects by name; a plugin's fault goes into its report."""
        view, known = self.view, self._dialects
        if known is not None and known[0] == view.generation:
            return known[1]
        offered = self._extensions("dialect")
        dialects = MappingProxyType({dialect.name: dialect for dialect in offered})
        self._dialects = (view.generation, dialects)
        return dialects

    def faults_in(self, hook: str) -> tuple[str, ...]:
        """Return the faults of the last answers to a hook, a sentence or two each."""
        return tuple(
            f"Plugin {record.origin}: {fault}"
            for record in self._records.values()
            for fault in record.complaints.get(hook, ())
        )

    def commands(self) -> tuple[Command, ...]:
        """Return the commands for the command line; a plugin's fault goes into its report."""
        return tuple(self._extensions("command"))

    def _extensions(self, what: str) -> list[Any]:
        hook = f"toolstile_{what}s"
        accepted, faults = extensions(what, self.view.implementations[hook])
        with self._lock:
            for name in self._records:
                own = [fault for plugin, fault in faults if plugin == name]
                self._complain(name, hook, own)
        return [offer for _, offer in accepted]

    def _register(self, origin: PluginSource, plugin: object = None) -> PluginReport:
        with self._lock:
            try:
                if blocked := self._switched_off(origin):
                    return blocked
                record = self._take(origin, plugin)
            except PluginFault as fault:
                error = fault.as_error(f"Plugin {origin} is not registered")
                raise error from fault.__cause__
            self._publish()
            return record.report()

    def _meet(self, origin: PluginSource, met: dict[str, PluginSource]) -> None:
        known = self._records.get(origin.name)
        if known is not None and known.origin == origin:
            met.setdefault(origin.name, origin)
            return
        try:
            if self._switched_off(origin):
                return
            first = met.setdefault(origin.name, origin)
            if first is not origin:
                cause = (
                    f"Another plugin has this name: {first}, from {first.source} {first.location}."
                )
                remedy = "Uninstall one of the two, or rename one's entry point."
                raise PluginFault(cause, remedy)  # noqa: TRY301 - it becomes a report, too
            self._take(origin)
        except PluginFault as fault:
            kinds = (table["kind"] for table in self.settings.policies)
            named = origin.name in self._asked or not fault.kinds.isdisjoint(kinds)
            self._refused.append(replace(origin.refused("failed", fault), named=named))

    def _take(self, origin: PluginSource, plugin: object = None) -> LoadedPlugin:
        try:
            if origin.source == "file":
                plugin = load_file(Path(origin.location or ""))
            elif origin.source == "entry point":
                plugin = load_entry_point(origin)
        except PluginFault as fault:
            refuse_unknown(fault.__cause__, origin)
            raise
        try:
            refuse_newer(getattr(plugin, REQUIRES, None), origin)
            return self._enter(origin, plugin)
        except PluginFault:
            if origin.source == "file":
                forget(plugin)
            raise

    def _enter(self, origin: PluginSource, plugin: object) -> LoadedPlugin:
        """Register a plugin whole, with all it offers, or leave nothing of it."""
        name = origin.name
        there = self._records.get(origin.name)
        if there is not None:
            at = there.origin
            whence = "Python" if at.source == "python" else f"the {at.source} {at.location}"
            raise PluginFault(
                f"The name {origin.name!r} is taken by plugin {at}, registered from {whence}.",
                "Give it another name, or unregister the other first.",
            )
        other = self.manager.get_name(plugin)
        if other is not None:
            raise PluginFault(
                f"The same plugin is registered already as {other!r}.",
                "Register it once; a second instance must not equal the first.",
            )
        hooks = register_hooks(plugin, name, self.manager)
        try:
            contribution = self._collect(origin, plugin, self.settings)
            refuse_clashes(name, contribution, self._records.values())
        except BaseException:
            self.manager.unregister(name=name)
            raise
        record = self._records[name] = LoadedPlugin(origin, plugin, hooks, contribution)
        return record

    def _collect(self, origin: PluginSource, plugin: object, settings: Settings) -> Contribution:
        name, own = origin.name, self._own(origin.name)
        found = collect(name, own, settings)
        # A plugin that the application names, gives or binds itself is requested by it.
        asked = name in self._asked or origin.source != "entry point" or settings.table_name(name)
        if not asked and self._bound.isdisjoint(binding.kind for binding in found.bindings):
            how: str | Mapping[str, str] | None = getattr(plugin, ON_REQUEST, None)
            if isinstance(how, Mapping):
                # Because the plugin names its tools, its sections need not be built.
                first = next(iter(how.values()), "")
                return replace(found, on_request=first, withheld=how)
            found = replace(found, on_request=how)
        return with_sections(found, own)

    def _own(self, name: str) -> Implementations:
        return lambda hook, settings: [
            found
            for found in self.manager.in_order(hook, {name: settings}, {})
            if found.plugin == name
        ]

    def _switched_off(self, origin: PluginSource) -> PluginReport | None:
        name = origin.name
        try:
            enabled = host_keys(self.settings, name).enabled
        except ConfigurationError as error:
            raise in_configuration(error, name, self.settings) from error
        if name in self._block:
            configured = f"TOOLSTILE_BLOCK or `block` in {self.settings.source_of('block')}"
            where = configured if name in self.settings.block else "--block or the application"
            remedy = "To use it, take its name out there."
        elif not enabled:
            key = f"plugins.{self.settings.table_name(name)}.enabled"
            where = f"{key} in {self.settings.source_of(key)}"
            remedy = "To use it, remove the key."
        else:
            return None
        report = origin.refused("blocked", PluginFault(f"It is switched off by {where}.", remedy))
        self._refused.append(report)
        return report

    def _absent(self) -> Iterator[PluginReport]:
        met = {*self._records, *(report.name for report in self._refused)}
        if not self.settings.plugins.keys() - met and not self._block:
            return
        # Without discovery, the table of an installed plugin may be meant for another host.
        known = met | (self._installed if self._discovered else {each.name for each in installed()})
        for name in self._block:
            if self._discovered and name not in known:
                yield _absent(name, f"{name!r} is switched off, but not installed.", known)
        spelt = {folded(name) for name in (*known, *self._block)}
        optional = {folded(name) for name in self.settings.optional_plugins}
        for name in self.settings.plugins:
            if folded(name) not in spelt:
                source = self.settings.source_of(f"plugins.{name}")
                cause = f"{source} has a table for {name!r}, which is not installed."
                yield _absent(name, cause, known, optional=folded(name) in optional)

    def loaded(self, name: str) -> LoadedPlugin:
        """Return a registered plugin with its offers; `PluginError` if that name has none."""
        record = self._records.get(name)
        if record is None:
            hint = _near(name, self._records, "See `toolstile plugins`.")
            raise PluginError(f"Unknown plugin {name!r}. {hint}")
        return record

    def _renew(self, name: str) -> None:
        record = self.loaded(name)
        try:
            # Asking may take long, or wait for another thread that comes here: without the lock.
            contribution = with_sections(record.contribution, self._own(name))
            with self._lock:
                current = self._records.get(name)
                if current is None or current.plugin is not record.plugin:
                    return  # it was unregistered meanwhile
                if current.contribution is record.contribution:
                    self._put(name, contribution)
                    self._complain(name, "toolstile_sections", [])
                    self._publish()
                    return
        except PluginFault as fault:
            with self._lock:
                self._complain(name, "toolstile_sections", [fault])
            error = fault.as_error(f"Plugin {record.origin} keeps the tools it had")
            raise error from fault.__cause__
        # Another thread was answered meanwhile, and this answer may be the older one.
        self._renew(name)

    def _put(self, name: str, contribution: Contribution) -> None:
        refuse_clashes(name, contribution, self._records.values())
        self._records[name] = replace(self._records[name], contribution=contribution)

    def _complain(self, name: str, hook: str, faults: Iterable[PluginFault]) -> None:
        """Record the faults of a plugin's last answer to a hook; none clears the earlier ones."""
        record = self._records.get(name)
        if record is not None:
            complaints = {**record.complaints, hook: tuple(faults)}
            self._records[name] = replace(record, complaints=complaints)

    def _publish(self) -> None:
        self.view = snapshot_of(self._records, self.manager, self.view.generation + 1, self.states)


def _file(path: Path) -> PluginSource:
    return PluginSource(path.stem or str(path), "file", location=str(path))


def _near(name: str, known: Collection[str], otherwise: str) -> str:
    near = nearest(name, known)
    return f"Did you mean {near!r}?" if near else otherwise


def _absent(
    name: str, cause: str, known: Collection[str], *, optional: bool = True
) -> PluginReport:
    remedy = _near(name, known, "Install it, or take its name out.")
    if not optional:
        # Because a misspelt table would switch off a record or a rule in silence, it is an error.
        remedy += f' If it may be absent here, write optional_plugins = ["{name}"] at the top.'
    fault = PluginFault(cause, remedy, misconfigured=not optional)
    return PluginSource(name, "configuration").refused("absent", fault)


# --- Approvers and dialects by name


_WITHOUT_DIALECTS: Final = (
    "Plugins bring them, and none that is loaded does. Write Host(discover=['dialects']) for those "
    "that are built in, or leave discover out."
)


@dataclass(frozen=True, slots=True)
class PluginApprover:
    """The approver of a plugin that takes the questions of a turn on one card."""

    single: Callable[[Any], Any]
    turn: Callable[[Any], Any]

    def __call__(self, request: Any) -> Any:
        """Answer a single question."""
        return self.single(request)


def approver_named(name: str, plugins: Plugins) -> Approver:
    """Return the approver of a plugin; `ConfigurationError` if it is none, or not loaded."""
    implementations = plugins.implementations("toolstile_approve")
    found = next((each for each in implementations if each.plugin == name), None)
    if found is not None:
        turns = plugins.implementations("toolstile_approve_turn")
        turn = next((each for each in turns if each.plugin == name), None)
        return found.call if turn is None else PluginApprover(found.call, turn.call)
    there = sorted(implementation.plugin for implementation in implementations)
    met = next((report for report in plugins.reports if report.name == name), None)
    if met is None:
        remedy = suggest(name, there) or "; install it, or name another."
    else:
        remedy = "; name another." if met.status == "loaded" else f". {met.fault} {met.remedy}"
    raise ConfigurationError(
        f"approver = {name!r}: no loaded plugin of that name implements toolstile_approve "
        f"(there are: {', '.join(there) or 'none'}){remedy}"
    )


def dialect_named(name: str, plugins: Plugins) -> Dialect:
    """Return a provider's dialect; the `ConfigurationError` for an unknown one lists all."""
    dialects = plugins.dialects()
    if name in dialects:
        return dialects[name]
    known = sorted(dialects)
    near = suggest(name, known) or f". Known: {', '.join(known) or 'none'}."
    blocked = ", ".join(repr(each.name) for each in plugins.reports if each.status == "blocked")
    switched_off = f"Switched off: {blocked}." if blocked else ""
    causes = (switched_off, *plugins.faults_in("toolstile_dialects"))
    text = " ".join(filter(None, causes)) or ("" if known else _WITHOUT_DIALECTS)
    raise ConfigurationError(f"There is no dialect {name!r}{near} {text}".rstrip())


# --- Clashes


def refuse_clashes(plugin: str, new: Contribution, others: Iterable[LoadedPlugin]) -> None:
    """Raise `PluginFault` if a plugin's offer clashes with another plugin's; it names both."""
    _refuse_own(plugin, new)
    claims = dict(_claims(new))
    others = [other for other in others if other.origin.name != plugin]
    tools = [*new.tools, *(tool for other in others for tool in other.contribution.tools)]
    if (circle := circle_among(tools)) is not None:
        cause = f"Tools depend on one another in a circle: {circle}."
        raise PluginFault(cause, "Leave one of them out of the depends_on of the one before it.")
    for other in others:
        for claim, _ in _claims(other.contribution):
            if claim in claims:
                cause = f"Plugin {plugin!r} {claims[claim]} plugin {other.origin} has already."
                remedy = _REMEDIES[claim[0]].format(plugin=plugin)
                raise PluginFault(cause, remedy, kinds=new.policies)


_PREFIX: Final = (
    'Or write prefix = "x_" into [plugins.{plugin}] of the configuration, or switch one of the '
    "two off with TOOLSTILE_BLOCK."
)
_REMEDIES: Final = {
    "tool": f"If the plugin is yours, give the tool another name there. {_PREFIX}",
    "section": f"If the plugin is yours, give the section another key there. {_PREFIX}",
    "policy": RENAME,
    "binding": "Take what asks for it out of [plugins.{plugin}] or the other's table, or switch "
    "one of the two off with TOOLSTILE_BLOCK; what an application binds itself wins over both.",
}


def _claims(contribution: Contribution) -> Iterator[tuple[tuple[str, object], str]]:
    """Yield the sort and name of each offer that must be unique, with words for messages."""
    for name, tool in _names(contribution):
        called = "" if tool.name == name else f"{tool.name!r} with the wire name "
        yield ("tool", name), f"has the tool {called}{name!r}, a name that"
    for section in contribution.sections:
        yield ("section", section.key), f"has a section with the key {section.key!r}, which"
    for name in contribution.policies:
        yield ("policy", name), f"offers the policy kind {name!r}, which"
    for binding in contribution.bindings:
        yield ("binding", binding.kind), f"binds {binding.kind.__qualname__}, which"


def _names(contribution: Contribution) -> Iterator[tuple[str, Tool[Any, Any]]]:
    for tool in contribution.tools:
        yield tool.name, tool
        # Under a prefix, and if a server chose it, a wire name serves only while no other tool
        # has it: otherwise the prefix would not help against a clash of wire names.
        if contribution.prefix or tool.origin is not None:
            continue
        if tool.wire_name is not None and tool.wire_name != tool.name:
            yield tool.wire_name, tool


def _refuse_own(plugin: str, new: Contribution) -> None:
    claims: dict[str, Tool[Any, Any]] = {}
    for name, tool in _names(new):
        if claims.setdefault(name, tool) is not tool:
            raise PluginFault(
                f"Two tools of plugin {plugin!r} are called {name!r}.",
                "Give one of them another name.",
            )
    places: dict[Tool[Any, Any], str] = {}
    for section in _always(new.sections):
        for tool in section.tools:
            if tool in places:
                raise PluginFault(
                    f"The tool {tool.name!r} stands {two_places(places[tool], section.key)}.",
                    "Leave it in one place.",
                )
            places[tool] = section.key


def _always(sections: Iterable[Section]) -> Iterator[Section]:
    for section in sections:
        # Because `enabled` may change, such sections can take turns with a tool.
        if getattr(section, "enabled", True) is None:
            yield section
            yield from _always(section.children)

"""Contributions: the offers of a plugin, collected and checked at its registration."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, Field, StrictBool

from toolstile.plugins.inspection import Implementation
from toolstile.plugins.offered_tools import with_prefix
from toolstile.plugins.plugin_errors import PluginFault, in_configuration, raised_in, wrong_answer
from toolstile.settings import Settings, validate_table
from toolstile.settings.table_validation import beside
from toolstile_hookspecs import Binding, Command, ConfigurationError, Durability, Section, Tool

# --- The host's keys of a plugin's table


RESERVED: Final = ("enabled", "prefix")


class HostKeys(BaseModel):
    """The keys of a plugin's table that the host reads.

    `enabled = false` switches the plugin off; `prefix` goes before the names of its tools
    and the keys of its sections.
    """

    enabled: StrictBool = True
    prefix: Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")] = ""


def host_keys(settings: Settings, plugin: str) -> HostKeys:
    """Return the host's keys in a plugin's table; raises `ConfigurationError` for a wrong one."""
    table = {key: value for key, value in settings.table_of(plugin).items() if key in RESERVED}
    return validate_table(
        HostKeys, table, plugin=settings.table_name(plugin) or plugin, source=settings.source_of
    )


# --- Offers of a plugin


ON_REQUEST: Final = "toolstile_on_request"
"""The plugin's attribute with the hint for tools that are offered on request only.

It is a text, or texts by the names of the tools; then sections are built only after a request.
"""

log = logging.getLogger(__name__)

_SECTION_PARTS: Final = ("key", "title", "tools", "policies", "resources", "children")

RENAME: Final = "Rename it in the plugin, or switch one of the two off with TOOLSTILE_BLOCK."

Implementations = Callable[[str, object], Iterable[Implementation]]
"""A plugin's own implementations of a hook, with its settings."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The offers of one plugin."""

    settings: Any = None  # its validated settings; None if it declares no settings
    prefix: str = ""  # the text before the names of its tools
    sections: tuple[Section, ...] = ()  # its sections, their tools renamed
    tools: tuple[Tool[Any, Any], ...] = ()  # the tools of all its sections, each once, in order
    # The kinds of policies it makes: the class, or its place, `module:Class`.
    policies: Mapping[str, type[Any] | str] = field(default_factory=dict[str, type[Any] | str])
    bindings: tuple[Binding[Any], ...] = ()  # the resources it provides
    on_request: str | None = None  # how a person asks for its tools, if they are withheld
    # How a person asks for each of these tools, by its name.
    withheld: Mapping[str, str] = field(default_factory=dict[str, str])


def collect(plugin: str, implementations: Implementations, settings: Settings) -> Contribution:
    """Ask a plugin for all it offers but sections; `PluginFault` if a hook or its table fails."""
    try:
        prefix = host_keys(settings, plugin).prefix
        own = _settings(plugin, implementations, settings)
    except ConfigurationError as error:
        raise in_configuration(error, plugin, settings) from error
    policies = _policies(implementations, own)
    bindings: dict[type[Any], Binding[Any]] = {}
    hook = "toolstile_resources"
    for binding in _asked(hook, implementations(hook, own)):
        if not issubclass(type(binding), Binding):
            raise wrong_answer(hook, binding, "bindings, such as Binding(Tracker, make_tracker)")
        if binding.kind in bindings:
            cause = f"It binds {binding.kind.__qualname__} twice."
            raise PluginFault(cause, "Remove one of the bindings.")
        bindings[binding.kind] = binding
    return Contribution(own, prefix, policies=policies, bindings=tuple(bindings.values()))


def with_sections(contribution: Contribution, implementations: Implementations) -> Contribution:
    """Return the contribution with the sections that the plugin offers now."""
    hook = "toolstile_sections"
    sections = _asked(hook, implementations(hook, contribution.settings))
    # A section is the plugin's own object, whose properties may raise anything.
    with guarded(f"A section of {hook}"):
        tools = _tools(sections)
        if contribution.prefix:
            sections = with_prefix(sections, contribution.prefix)
            tools = _tools(sections)
    if contribution.on_request is not None:
        names = [name for tool in tools for name in tool.policy_names]
        return replace(contribution, withheld=dict.fromkeys(names, contribution.on_request))
    return replace(contribution, sections=sections, tools=tuple(dict.fromkeys(tools)))


def _settings(plugin: str, implementations: Implementations, settings: Settings) -> Any:
    written = settings.table_of(plugin)
    table = {key: value for key, value in written.items() if key not in RESERVED}
    for implementation in implementations("toolstile_settings", None):
        with guarded("toolstile_settings"):
            model: Any = implementation.call()
            if model is None:
                continue
            if not (inspect.isclass(model) and issubclass(model, BaseModel)):
                expected = "a pydantic model, the class itself"
                raise wrong_answer("toolstile_settings", model, expected)
            if taken := [key for key in RESERVED if key in model.model_fields]:
                cause = f"The model of its settings has the field {taken[0]!r}, a key of the host."
                raise PluginFault(cause, "Give the field another name.")
            # Because pydantic looks undefined names in annotations up when it reads a table.
            model.model_rebuild()
        if (field := model.model_fields.get("durability")) and field.annotation == cast(
            "Any", Durability
        ):
            _refuse_switches(table, plugin, settings)
            table["durability"] = settings.durability
        name = settings.table_name(plugin) or plugin
        if settings.path is not None:
            # Because the file names them, paths are relative to it; paths of variables are not.
            elsewhere = {key for key in table if f"plugins.{name}.{key}" in settings.variables}
            named = {key: table[key] for key in table.keys() - elsewhere}
            table |= beside(settings.path.parent, named, model)
        source = settings.source_of
        return validate_table(model, table, plugin=name, source=source, others=RESERVED)
    if table:
        name = f"plugins.{settings.table_name(plugin)}"
        raise ConfigurationError(
            f"{settings.source_of(f'{name}.{next(iter(table))}')}: {name}: the plugin takes no "
            f"settings, found {', '.join(table)}; remove {'it' if len(table) == 1 else 'them'}."
        )
    return None


def _refuse_switches(table: Mapping[str, Any], plugin: str, settings: Settings) -> None:
    """Refuse a durability of the plugin's own: a session would outlive the files it names."""
    for key in table.keys() & {"durability", "fsync", "synchronous"}:
        place = f"plugins.{settings.table_name(plugin)}.{key}"
        is_power = str(table[key]).lower() in {"true", "yes", "on", "1", "full", "power"}
        line = "power" if is_power else "process"
        raise ConfigurationError(
            f"{settings.source_of(place)}: {place}: one setting replaces it for all plugins. "
            f'Remove it, and write durability = "{line}" at the top of the configuration, or set '
            f"TOOLSTILE_DURABILITY={line}."
        )


def _policies(implementations: Implementations, settings: object) -> dict[str, type[Any] | str]:
    hook = "toolstile_policies"
    kinds: dict[str, type[Any] | str] = {}
    for implementation in implementations(hook, settings):
        with guarded(hook):
            answer = implementation.call()
        if answer is None:
            continue
        if not isinstance(answer, Mapping):
            raise wrong_answer(hook, answer, "a mapping from a kind's name to its class")
        for kind, made in cast("Mapping[object, object]", answer).items():
            is_place = isinstance(made, str) and EntryPoint.pattern.match(made)
            if not isinstance(kind, str) or not (is_place or inspect.isclass(made)):
                raise wrong_answer(hook, made, f"a class for the kind {kind!r}")
            kinds[kind] = cast("type[Any] | str", made)
    return kinds


def class_of_kind(kind: str, made: type[Any] | str) -> type[Any]:
    """Return the class of a kind of policies; `ConfigurationError` if its place has none."""
    if not isinstance(made, str):
        return made
    try:
        return cast("type[Any]", EntryPoint("", made, "").load())
    except (ImportError, AttributeError) as error:
        told = f"The kind of policies {kind!r}, {made}, cannot be imported: {error}."
        raise ConfigurationError(f"{told} Install its plugin again, or fix it.") from error


def _asked(hook: str, implementations: Iterable[Implementation]) -> tuple[Any, ...]:
    answers: list[object] = []
    # Implementations come last registered first; offers stay in the order written.
    for implementation in reversed(tuple(implementations)):
        answers.extend(listed(hook, implementation.call))
    return tuple(answers)


def listed(hook: str, call: Callable[[], Any]) -> tuple[object, ...]:
    """Return the several things that a hook answers; None is nothing."""
    with guarded(hook):
        answer = call()
        if answer is None:
            return ()
        if isinstance(answer, (str, bytes, Mapping)) or not isinstance(answer, Iterable):
            raise wrong_answer(hook, cast("object", answer), "a list")
        return tuple(cast("Iterable[object]", answer))


@contextmanager
def guarded(what: str) -> Generator[None]:
    """Turn an exception of a plugin's code into the plugin's fault."""
    try:
        yield
    except PluginFault:
        raise
    # A hook that calls sys.exit must not end the host.
    except (Exception, SystemExit) as error:
        log.debug("%s raised", what, exc_info=True)
        raise raised_in(what, error) from error


def _tools(sections: Iterable[Any], place: str = "") -> list[Tool[Any, Any]]:
    """Return the tools of sections, and check each: an author's offer may be anything."""
    found: list[Tool[Any, Any]] = []
    keys: set[str] = set()
    for section in sections:
        whole = all(hasattr(section, part) for part in _SECTION_PARTS)
        if not whole or isinstance(section, type):
            expected = "sections: MarkdownSection(key=..., title=..., tools=[...])"
            raise wrong_answer("toolstile_sections", section, expected)
        if section.key in keys:
            raise PluginFault(
                f"It has two sections with the key {place}{section.key!r}.",
                "Give one of them another key.",
            )
        keys.add(section.key)
        for tool in section.tools:
            if not issubclass(type(tool), Tool):
                where = f"Section {section.key!r} of toolstile_sections"
                raise wrong_answer(where, tool, "tools, made with @tool")
            found.append(tool)
        found += _tools(section.children, f"{place}{section.key}.")
    return found


# --- Dialects and commands


_EXTENSIONS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "dialect": (
        lambda value: isinstance(getattr(value, "name", None), str) and not isinstance(value, type),
        "dialects: objects with a name",
    ),
    "command": (lambda value: isinstance(value, Command), "commands: Command(name, help, run=...)"),
}
"""For each sort of extension: whether an object is one, and the hook's expected answer."""

Faults = list[tuple[str, PluginFault]]
"""Plugins, and the faults of their offers."""


def extensions(
    what: str, implementations: Iterable[Implementation]
) -> tuple[list[tuple[str, Any]], Faults]:
    """Return the dialects or commands that plugins offer, and the faults of other offers.

    The accepted ones come in the order of registration, each with its plugin.
    """
    fits, expected = _EXTENSIONS[what]
    accepted: list[tuple[str, Any]] = []
    faults: Faults = []
    owners: dict[str, str] = {}
    # They come last registered first, but the first registered keeps a name.
    for implementation in reversed(tuple(implementations)):
        plugin, hook = implementation.plugin, implementation.hook
        try:
            offers = listed(hook, implementation.call)
        except PluginFault as fault:
            faults.append((plugin, fault))
            continue
        for offer in offers:
            name = getattr(offer, "name", "")
            if not fits(offer):
                faults.append((plugin, wrong_answer(hook, offer, expected)))
            elif getattr(offer, "extends", False):  # further options of a command
                accepted.append((plugin, offer))
            elif name in owners:
                cause = f"It offers the {what} {name!r}, which plugin {owners[name]!r} has already."
                faults.append((plugin, PluginFault(cause, RENAME)))
            else:
                owners[name] = plugin
                accepted.append((plugin, offer))
    return accepted, faults

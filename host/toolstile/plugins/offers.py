"""Dialects and commands: asked for late, plugin by plugin, each fault told by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

from toolstile.plugins.contributions import listed
from toolstile.plugins.faults import PluginFault, wrong_answer
from toolstile.plugins.implementations import Implementation
from toolstile_hookspecs import Command, Dialect


@dataclass(slots=True)
class Offers:
    """What was offered, and what could not be taken.

    Args:
        dialects: By name, in the order of registration.
        commands: In the order of registration, each with the plugin that offers it.
        faults: Plugins and what is wrong with their offers.
    """

    dialects: dict[str, Dialect] = field(default_factory=dict[str, Dialect])
    commands: list[tuple[str, Command]] = field(default_factory=list[tuple[str, Command]])
    faults: list[tuple[str, PluginFault]] = field(default_factory=list[tuple[str, PluginFault]])


def dialects(implementations: Iterable[Implementation]) -> Offers:
    """Return the dialects that implementations of `toolstile_dialects` offer."""
    offers, owners = Offers(), dict[str, str]()
    for plugin, each in _offered(implementations, offers):
        name = getattr(each, "name", None)
        if not isinstance(name, str) or isinstance(each, type):
            fault = wrong_answer("toolstile_dialects", each, "dialects: objects with a name")
            offers.faults.append((plugin, fault))
        elif name in owners:
            offers.faults.append((plugin, _taken("dialect", name, owners[name])))
        else:
            owners[name] = plugin
            offers.dialects[name] = cast("Dialect", each)
    return offers


def commands(implementations: Iterable[Implementation]) -> Offers:
    """Return the commands that implementations of `toolstile_commands` offer."""
    offers, owners = Offers(), dict[str, str]()
    for plugin, each in _offered(implementations, offers):
        if not isinstance(each, Command):
            fault = wrong_answer(
                "toolstile_commands", each, "commands: Command(name, help, run=...)"
            )
            offers.faults.append((plugin, fault))
        elif not each.extends and each.name in owners:
            offers.faults.append((plugin, _taken("command", each.name, owners[each.name])))
        else:
            if not each.extends:
                owners[each.name] = plugin
            offers.commands.append((plugin, each))
    return offers


def _offered(
    implementations: Iterable[Implementation], offers: Offers
) -> Iterator[tuple[str, object]]:
    # They come last registered first, but the first registered keeps a name.
    for implementation in reversed(tuple(implementations)):
        try:
            answers = listed(implementation.hook, implementation.call)
        except PluginFault as fault:
            offers.faults.append((implementation.plugin, fault))
            continue
        for each in answers:
            yield implementation.plugin, each


def _taken(what: str, name: str, owner: str) -> PluginFault:
    return PluginFault(
        f"It offers the {what} {name!r}, which plugin {owner!r} has already.",
        "Rename it in the plugin, or switch one of the two off with TOOLSTILE_BLOCK.",
    )

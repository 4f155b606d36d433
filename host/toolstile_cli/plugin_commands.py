"""The commands and options that plugins add."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from toolstile.host import Host
from toolstile.plugins.plugin_errors import one_line
from toolstile.settings import Settings
from toolstile_cli.errors import say
from toolstile_cli.options import Parser, main_parser, restore_common_options
from toolstile_hookspecs import Command, HostHandle, PluginError
from toolstile_hookspecs.execution.options import Purpose

Run = Callable[[Any, argparse.Namespace], int]
Tell = Callable[[Command, str], None]

OWN: Final = frozenset({"log", "out", "stopping"})
"""The arguments of commands beside their options; see `program`."""


def _warn(command: Command, why: str) -> None:
    say("warning", f"a plugin's command {command.name!r} was left out: {why}. Fix the plugin.")


def with_extensions(
    commands: Iterable[Command], built_in: Mapping[str, Run], tell: Tell = _warn
) -> tuple[Parser, dict[str, Run], list[Command]]:
    """Return the parser of everything, the function of each command, and the added commands.

    A command that cannot be added is left out, and `tell` reports why.
    """
    commands = list(commands)
    runs = dict(built_in)
    added: list[Command] = []
    for command in commands:
        if not command.extends and _fits(command, runs, tell):
            added.append(command)
            runs[command.name] = _runner(command)
    parser, parsers = main_parser((command.name, command.help) for command in added)
    taken: list[Command] = []
    for command in (*added, *(command for command in commands if command.extends)):
        if command.name not in parsers:
            if not command.optional:
                tell(command, f"there is no command {command.name!r} to extend")
            continue
        try:
            if command.extends:
                _refuse_the_hosts_names(command)
            command.configure(parsers[command.name])
        except Exception as error:  # noqa: BLE001 - a plugin's fault takes nothing else down
            tell(command, f"its options cannot be added: {one_line(error)}")
            if not command.extends:
                del runs[command.name]
        else:
            taken.append(command)
            restore_common_options(parsers[command.name])
    return parser, runs, taken


def configure(host: Host, commands: Iterable[Command], args: argparse.Namespace) -> None:
    """Let the options of the command that runs change the configuration."""
    mine = [command for command in commands if command.name == args.command]
    defaults = {key: value for command in mine for key, value in command.defaults.items()}
    given = {key: value for command in mine for key, value in command.settings(args).items()}
    values = {**without_configured(host.configuration, defaults), **given}
    if values:
        host.configure(values)


def purpose_of(commands: Iterable[Command], args: argparse.Namespace) -> Purpose:
    """Return how much of the host the command that runs needs open; `call` if it is built in."""
    for command in commands:
        if command.name == args.command and not command.extends:
            return command.purpose(args) if callable(command.purpose) else command.purpose
    return "call"


def without_configured(settings: Settings, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, by dotted key, that the settings leave open."""
    return {key: value for key, value in values.items() if not _is_configured(settings, key)}


def _is_configured(settings: Settings, key: str) -> bool:
    first, *rest = key.split(".")
    if first != "plugins":
        return bool(getattr(settings, first, None) != getattr(Settings(), first, None))
    at: object = settings.table_of(rest[0]) if rest else {}
    for part in rest[1:]:
        table = cast("Mapping[str, object]", at if isinstance(at, Mapping) else {})
        if part not in table:
            return False
        at = table[part]
    return True


def _fits(command: Command, runs: Mapping[str, Run], tell: Tell) -> bool:
    if command.name in runs:
        tell(command, "there is a command of that name already")
    elif command.run is None:
        tell(command, "it has no `run`, and does not extend another")
    else:
        return True
    return False


def _refuse_the_hosts_names(command: Command) -> None:
    """Refuse options that would replace an argument of a built-in command.

    They are added to a separate parser first, because argparse cannot remove options.
    """
    trial = Parser(add_help=False)
    command.configure(trial)
    for action in trial._actions:  # noqa: SLF001 - listed nowhere else  # pyright: ignore[reportPrivateUsage]
        if action.dest in OWN:
            option = ", ".join(action.option_strings) or action.dest
            msg = f"{option} would be args.{action.dest}, which is the host's; give it another dest"
            raise ValueError(msg)


def _runner(command: Command) -> Run:
    def run(host: HostHandle, args: argparse.Namespace) -> int:
        # Plugins need not be type-checked.
        status = cast("object", command.run(host, args)) if command.run is not None else 0
        if status is None or isinstance(status, int):
            return int(status or 0)
        if inspect.iscoroutine(status):
            status.close()
        raise PluginError(
            f"The command {command.name!r} returned a value of type {type(status).__name__}, which "
            "is not an exit status. Fix the plugin: have it print its output, and return a number, "
            "or nothing for 0."
        )

    return run

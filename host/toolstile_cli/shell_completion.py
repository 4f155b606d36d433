"""Completions for a shell: commands, options, tools, plugins."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Final, TextIO, cast

import argcomplete
from argcomplete.completers import BaseCompleter, FilesCompleter
from argcomplete.lexers import split_line

from toolstile.host import Host
from toolstile.settings import Settings
from toolstile_cli.commands.run import host_for
from toolstile_cli.examples import SESSIONS
from toolstile_cli.options import common_options, take_common
from toolstile_cli.plugin_commands import with_extensions
from toolstile_cli.program import BUILT_IN
from toolstile_hookspecs import ToolstileError

PATHS: Final = {"FILE": (), "DIR": (), "FILE.py": ("py",)}
"""The placeholder of a path in the help, with the suffixes of its files."""

Names = Callable[[], Iterable[str]]


def answer_shell(output: TextIO | None = None, leave: Callable[[int], object] = os._exit) -> None:
    """Write completions of the shell's line, by default where its script reads; then `leave`."""
    host = _make_host(os.environ.get("COMP_LINE", ""))
    parser, _, _ = with_extensions(host.plugins.commands(), BUILT_IN)
    _prepare(parser, _names_of(host))
    argcomplete.autocomplete(
        parser,
        # Options only once a hyphen is typed: else they hide the other words.
        always_complete_options=False,
        output_stream=output,
        exit_method=leave,
    )


def _make_host(line: str) -> Host:
    try:
        _, _, _, words, _ = split_line(line)
        common, _ = take_common(words[1:])
        return host_for(common)
    except (ToolstileError, SystemExit):
        # The fault is reported when the command is run; its name can be completed anyway.
        return Host(settings=Settings())


def _names_of(host: Host) -> dict[str, Names]:
    """Return the possible words of an argument, by command and argument."""

    def tools() -> list[str]:
        # The options of the line may still request the withheld tools.
        return [*host.catalog.names(), *host.plugins.view.withheld]

    return {
        "call name": tools,
        # The name of the example may be left out; then the tool's comes next.
        "call example": lambda: [*SESSIONS, *tools()],
        "--tool": tools,
        "--block": lambda: [report.name for report in host.plugins.reports],
        "check names": lambda: [report.name for report in host.plugins.reports],
        "--schema": host.plugins.dialects,
    }


def _prepare(parser: argparse.ArgumentParser, names: dict[str, Names], command: str = "") -> None:
    for action in list(parser._actions):  # noqa: SLF001 - listed nowhere else  # pyright: ignore[reportPrivateUsage]
        choices = cast("object", action.choices)
        if isinstance(choices, dict):
            for name, below in cast("dict[str, argparse.ArgumentParser]", choices).items():
                # They can stand behind any command; the program takes them out before it parses.
                below.conflict_handler = "resolve"
                common_options(below)
                _prepare(below, names, name)
        else:
            places = [*action.option_strings, f"{command} {action.dest}"]
            known = next((names[place] for place in places if place in names), None)
            if known is not None or choices is None:
                _complete_by(action, known)


def _complete_by(action: argparse.Action, names: Names | None) -> None:
    def complete_names(prefix: str, **_: object) -> list[str]:
        # Several may be given, separated by commas; the last one is being written.
        before, comma, _last = prefix.rpartition(",")
        words = () if names is None else names()
        return [f"{before}{comma}{word}" for word in words]

    completer: BaseCompleter | Callable[..., list[str]] = complete_names
    endings = PATHS.get(str(action.metavar))
    if names is None and endings is not None:
        completer = FilesCompleter(endings)
    setattr(action, "completer", completer)  # noqa: B010 - argcomplete's, unknown to argparse

"""The command `toolstile sessions`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.cli_support import late, subcommands

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

_HELP: Final = """\
examples:
  toolstile sessions list                     list the stored sessions
  toolstile sessions show support-4711        show the contents of a session
  toolstile sessions export support-4711      print a session as JSON
  toolstile sessions delete support-4711      delete a session
"""
_COMMANDS: Final = {
    "show": ("show the contents of a session", "show its slices and its last change"),
    "export": ("print a whole session as JSON", "print it, for `Session.from_json`"),
    "delete": ("delete a session that no process has open", "delete it permanently"),
}


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add = subcommands(parser)
    add(
        "list",
        "list the stored sessions",
        ("", "list them, last changed at the end"),
        ("--json", "print one JSON object per line"),
    )
    for name, (text, does) in _COMMANDS.items():
        command = add(name, text, ("support", does))
        command.add_argument("name", metavar="NAME", help="the id of the session")


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="sessions",
            help="list, show, export and delete stored sessions",
            run=late("toolstile_plugins.sessions.commands:run_command"),
            configure=_configure,
            purpose="look",
        )
    ]

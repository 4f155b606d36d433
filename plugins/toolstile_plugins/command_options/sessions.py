"""The arguments of `toolstile sessions`."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

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
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    what = parser.add_subparsers(metavar="list|show|export|delete", dest="what", required=True)
    add_subcommand(
        what,
        "list",
        "list the stored sessions",
        {
            "toolstile sessions list": "list them, last changed at the end",
            "toolstile sessions list --json": "print one JSON object per line",
        },
    )
    for name, (text, does) in _COMMANDS.items():
        command = add_subcommand(what, name, text, {f"toolstile sessions {name} support": does})
        command.add_argument("name", metavar="NAME", help="the id of the session")


SESSIONS: Final = Arguments("sessions", _configure, "list, show, export and delete stored sessions")
ARGUMENTS: Final = (SESSIONS,)

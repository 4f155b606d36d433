"""The arguments of `toolstile sessions`."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

_HELP: Final = """\
examples:
  toolstile sessions list                     the stored sessions
  toolstile sessions show support-4711        what one of them holds
  toolstile sessions export support-4711      print it as JSON
  toolstile sessions delete support-4711      remove it
"""
_COMMANDS: Final = {
    "show": ("show what a session holds", "see its slices, and when it changed last"),
    "export": ("print the whole of a session as JSON", "print it, for `Session.from_json`"),
    "delete": ("remove a session that no process has open", "remove it for good"),
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
            "toolstile sessions list": "list them, the one changed last at the end",
            "toolstile sessions list --json": "print one JSON object a line",
        },
    )
    for name, (text, does) in _COMMANDS.items():
        command = add_subcommand(what, name, text, {f"toolstile sessions {name} support": does})
        command.add_argument("name", metavar="NAME", help="the id of the session")


SESSIONS: Final = Arguments("sessions", _configure, "show what is kept of sessions, and remove it")
ARGUMENTS: Final = (SESSIONS,)

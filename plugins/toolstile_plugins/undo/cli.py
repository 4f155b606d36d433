"""The command `toolstile undo`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.cli_support import add_session, late, moment

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

_HELP: Final = """\
examples:
  toolstile undo                            list the calls that can be undone
  toolstile undo --last --dry-run           show the changes of undoing the last call
  toolstile undo --since 2h --yes           undo all calls of the last two hours
  toolstile undo --file notes.md            undo the last call that changed a file
  toolstile undo 018f3c0a                   undo a call by its id, or the beginning of it
  toolstile undo purge                      remove all former contents

exit status:
  0  the command has done everything
  1  nothing was undone: no such call, several such calls, a rule denies it, nothing of the call
     can go back, or no "yes"; or the undo of an effect outside has failed and is still owed
  2  the command, the configuration or a store is wrong
  3  nothing was undone: others have changed values since
"""
_FLAGS: Final = {
    "--last": "undo the last call",
    "--turn": "undo the calls of the last turn",
    "--list": "list the calls, and undo none",
    "--keep-others": "leave values that others have changed since, and undo the rest",
    "--dry-run": "show the changes, and keep none",
    "--yes": "undo without asking",
}


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    parser.add_argument("calls", nargs="*", metavar="ID", help="the calls, or `purge`")
    for flag, text in _FLAGS.items():
        parser.add_argument(flag, action="store_true", help=text)
    add_session(parser, "only calls of this session")
    since = "only calls after this time: 2026-01-31T12:00 (UTC), or 2h, 7d for a time ago"
    parser.add_argument("--since", type=moment, metavar="TIME", help=since)
    parser.add_argument("--file", metavar="PATH", help="only calls that changed this file")


def lists(args: argparse.Namespace) -> bool:
    """Tell whether a command undoes nothing, because it names no call."""
    names = ("calls", *(flag[2:].replace("-", "_") for flag in _FLAGS), "session", "since", "file")
    return args.list or not any(getattr(args, name) for name in names)


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="undo",
            help="list calls that were kept, and undo them",
            run=late("toolstile_plugins.undo.commands:run_command"),
            configure=_configure,
            purpose=lambda args: "look" if lists(args) or args.calls[:1] == ["purge"] else "call",
            decides=lambda words: bool(words) and "--list" not in words,
        )
    ]

"""The command `toolstile ledger`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.cli_support import besides, late, subcommands

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

_HELP: Final = """\
examples:
  toolstile ledger list --state unknown                list effects with an unknown outcome
  toolstile ledger show 5d41402abc4b                   show everything known about one effect
  toolstile ledger resolve 5d41402abc4b --done         it happened: do not run it again
  toolstile ledger resolve 5d41402abc4b --not-done     it did not happen: the next call runs
  toolstile ledger reconcile                           ask about unknown effects, retry owed undos
  toolstile ledger invalidate --tool create_order      forget the effects of a tool
  toolstile ledger prune                               remove expired entries
  toolstile ledger move                                move the entries into the file of sessions
"""
STATES: Final = ("claimed", "done", "unknown", "owed", "undoing", "undone", "undo unknown")
_WHICH: Final = "the key of the effect, or an unambiguous beginning of its hash"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add = subcommands(parser)
    listing = add(
        "list",
        "list the recorded effects",
        ("", "list all effects"),
        ("--state unknown", "list unknown effects"),
        ("--tool create_order --json", "list a tool's, print JSON"),
    )
    listing.add_argument("--tool", type=_text, metavar="NAME", help="only effects of this tool")
    listing.add_argument("--state", choices=STATES, help="only effects in this state")
    show = add(
        "show",
        "show everything known about an effect",
        ("5d41402abc4b", "show the effect with this hash"),
    )
    show.add_argument("key", type=_text, metavar="KEY", help=_WHICH)
    resolve = add(
        "resolve",
        "record whether an unknown effect, or an owed undo, happened",
        ("5d41402abc4b --done", "it happened: never run it again"),
        ("5d41402abc4b --not-done", "it did not: run the next"),
        ("5d41402abc4b --done --value 17", "calls get this value"),
    )
    resolve.add_argument("key", type=_text, metavar="KEY", help=_WHICH)
    how = resolve.add_mutually_exclusive_group(required=True)
    how.add_argument("--done", action="store_true", help="it happened; an owed undo: the undo did")
    how.add_argument(
        "--not-done", action="store_true", help="it did not happen; an owed undo stays owed"
    )
    resolve.add_argument("--message", type=_text, metavar="TEXT", help="with --done: the message")
    resolve.add_argument("--value", type=_text, metavar="JSON", help="with --done: the value")
    reconcile = add(
        "reconcile",
        "ask the tools whether unknown effects happened",
        ("", "ask about all unknown effects now"),
    )
    reconcile.add_argument("key", type=_text, metavar="KEY", nargs="?", help=_WHICH)
    forget = add(
        "invalidate",
        "forget effects, so that they can run again",
        ("5d41402abc4b", "forget one effect"),
        ("--tool create_order", "forget the effects of a tool"),
        ("--all", "forget everything"),
    )
    which = forget.add_mutually_exclusive_group(required=True)
    which.add_argument("key", type=_text, metavar="KEY", nargs="?", help=_WHICH)
    which.add_argument("--tool", type=_text, metavar="NAME", help="forget all effects of this tool")
    which.add_argument("--all", action="store_true", help="forget all effects")
    add("prune", "remove expired entries", ("", "remove them, and print how many"))
    add(
        "move",
        "move the entries of the ledger's file into the file of stored sessions",
        ("", "move them; stop all hosts first"),
    )


def _text(given: str) -> str:
    """Return an argument of the shell that is text, not other bytes."""
    try:
        given.encode()
    except UnicodeEncodeError:
        msg = f"{given!r} is not UTF-8; write it in UTF-8, the encoding of the ledger"
        raise argparse.ArgumentTypeError(msg) from None
    return given


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="ledger",
            help="list and resolve effects that must happen only once",
            run=late("toolstile_plugins.ledger.commands:run_command"),
            configure=_configure,
            purpose=lambda args: "call" if args.what == "reconcile" else "look",
            decides=besides("list", "show"),
            # Because the host of the command would ask at the same time.
            settings=lambda _: {"plugins.ledger.reconcile_every": 0},
        )
    ]

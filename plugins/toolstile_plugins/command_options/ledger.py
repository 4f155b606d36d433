"""The arguments of `toolstile ledger`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

if TYPE_CHECKING:
    from toolstile_plugins.command_options.arguments import Adder

_HELP: Final = """\
examples:
  toolstile ledger list --state unknown                list effects with an unknown outcome
  toolstile ledger show 5d41402abc4b                   show everything known about one effect
  toolstile ledger resolve 5d41402abc4b --done         it happened: do not run it again
  toolstile ledger resolve 5d41402abc4b --not-done     it did not happen: the next call runs
  toolstile ledger reconcile                           ask the tools about unknown effects
  toolstile ledger invalidate --tool create_order      forget the effects of a tool
  toolstile ledger prune                               remove expired entries
  toolstile ledger move                                move the entries into the file of sessions
"""
_WHICH: Final = "the key of the effect, or an unambiguous beginning of its hash"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    what = parser.add_subparsers(
        metavar="list|show|resolve|reconcile|invalidate|prune|move", dest="what", required=True
    )
    listing = add_subcommand(
        what,
        "list",
        "list the recorded effects",
        {
            "toolstile ledger list": "list all effects",
            "toolstile ledger list --state unknown": "list unknown effects",
            "toolstile ledger list --tool create_order --json": "list a tool's, print JSON",
        },
    )
    listing.add_argument("--tool", type=_text, metavar="NAME", help="only effects of this tool")
    listing.add_argument(
        "--state", choices=("claimed", "done", "unknown"), help="only effects in this state"
    )
    show = add_subcommand(
        what,
        "show",
        "show everything known about an effect",
        {"toolstile ledger show 5d41402abc4b": "show the effect with this hash"},
    )
    show.add_argument("key", type=_text, metavar="KEY", help=_WHICH)
    _configure_resolve(
        add_subcommand(
            what,
            "resolve",
            "record whether an unknown effect happened",
            {
                "toolstile ledger resolve 5d41402abc4b --done": "it happened: never run it again",
                "toolstile ledger resolve 5d41402abc4b --not-done": "it did not: run the next",
                "toolstile ledger resolve 5d41402abc4b --done --value 17": "calls get this value",
            },
        )
    )
    reconcile = add_subcommand(
        what,
        "reconcile",
        "ask the tools whether unknown effects happened",
        {"toolstile ledger reconcile": "ask about all unknown effects now"},
    )
    reconcile.add_argument("key", type=_text, metavar="KEY", nargs="?", help=_WHICH)
    _configure_forgetting(what)


def _configure_forgetting(what: Adder) -> None:
    forget = add_subcommand(
        what,
        "invalidate",
        "forget effects, so that they can run again",
        {
            "toolstile ledger invalidate 5d41402abc4b": "forget one effect",
            "toolstile ledger invalidate --tool create_order": "forget the effects of a tool",
            "toolstile ledger invalidate --all": "forget everything",
        },
    )
    which = forget.add_mutually_exclusive_group(required=True)
    which.add_argument("key", type=_text, metavar="KEY", nargs="?", help=_WHICH)
    which.add_argument("--tool", type=_text, metavar="NAME", help="forget all effects of this tool")
    which.add_argument("--all", action="store_true", help="forget all effects")
    add_subcommand(
        what,
        "prune",
        "remove expired entries",
        {"toolstile ledger prune": "remove them, and print how many"},
    )
    add_subcommand(
        what,
        "move",
        "move the entries of the ledger's file into the file of stored sessions",
        {"toolstile ledger move": "move them; stop all hosts first"},
    )


def _configure_resolve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", type=_text, metavar="KEY", help=_WHICH)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--done", action="store_true", help="it happened; later calls return the message and value"
    )
    how.add_argument(
        "--not-done", action="store_true", help="it did not happen; the next call runs"
    )
    parser.add_argument("--message", type=_text, metavar="TEXT", help="with --done: the message")
    parser.add_argument("--value", type=_text, metavar="JSON", help="with --done: the value")


def _text(given: str) -> str:
    """Return an argument of the shell that is text, not other bytes."""
    try:
        given.encode()
    except UnicodeEncodeError:
        msg = f"{given!r} is not UTF-8, in which the ledger is kept; write it in UTF-8"
        raise argparse.ArgumentTypeError(msg) from None
    return given


LEDGER: Final = Arguments(
    "ledger", _configure, "list and resolve effects that must happen only once"
)
ARGUMENTS: Final = (LEDGER,)

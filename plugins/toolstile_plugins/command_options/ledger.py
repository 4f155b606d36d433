"""The arguments of `toolstile ledger`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

if TYPE_CHECKING:
    from toolstile_plugins.command_options.arguments import Adder

_HELP: Final = """\
examples:
  toolstile ledger list --state unknown                what may have happened, or not
  toolstile ledger show 5d41402abc4b                   all that is known of one call
  toolstile ledger resolve 5d41402abc4b --done         it has happened: do not run it again
  toolstile ledger resolve 5d41402abc4b --not-done     it has not: the next runs
  toolstile ledger reconcile                           ask the tools what became of unknowns
  toolstile ledger invalidate --tool create_order      forget what a tool has done
  toolstile ledger prune                               remove what has expired
  toolstile ledger move                                take entries into the file of sessions
"""
_WHICH: Final = "which call: its whole key, or enough of its hash to be the only one"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    what = parser.add_subparsers(
        metavar="list|show|resolve|reconcile|invalidate|prune|move", dest="what", required=True
    )
    listing = add_subcommand(
        what,
        "list",
        "list what is recorded",
        {
            "toolstile ledger list": "list all calls",
            "toolstile ledger list --state unknown": "what may have happened, or not",
            "toolstile ledger list --tool create_order --json": "the calls of a tool, as JSON",
        },
    )
    listing.add_argument("--tool", type=_text, metavar="NAME", help="only calls of this tool")
    listing.add_argument(
        "--state", choices=("claimed", "done", "unknown"), help="only calls in this state"
    )
    show = add_subcommand(
        what,
        "show",
        "show all that is known of a call",
        {"toolstile ledger show 5d41402abc4b": "show the call that is listed so"},
    )
    show.add_argument("key", type=_text, metavar="KEY", help=_WHICH)
    _configure_resolve(
        add_subcommand(
            what,
            "resolve",
            "settle an unknown",
            {
                "toolstile ledger resolve 5d41402abc4b --done": "it has happened: never repeat it",
                "toolstile ledger resolve 5d41402abc4b --not-done": "it has not: the next runs",
                "toolstile ledger resolve 5d41402abc4b --done --value 17": "calls get this value",
            },
        )
    )
    reconcile = add_subcommand(
        what,
        "reconcile",
        "ask the tools what became of unknown calls",
        {"toolstile ledger reconcile": "ask about all of them, now"},
    )
    reconcile.add_argument("key", type=_text, metavar="KEY", nargs="?", help=_WHICH)
    _configure_forgetting(what)


def _configure_forgetting(what: Adder) -> None:
    forget = add_subcommand(
        what,
        "invalidate",
        "forget calls",
        {
            "toolstile ledger invalidate 5d41402abc4b": "forget one call",
            "toolstile ledger invalidate --tool create_order": "forget what a tool has done",
            "toolstile ledger invalidate --all": "forget everything",
        },
    )
    which = forget.add_mutually_exclusive_group(required=True)
    which.add_argument("key", type=_text, metavar="KEY", nargs="?", help=_WHICH)
    which.add_argument("--tool", type=_text, metavar="NAME", help="all of this tool")
    which.add_argument("--all", action="store_true", help="all there are")
    add_subcommand(
        what,
        "prune",
        "remove what has expired",
        {"toolstile ledger prune": "remove it, and say how much it was"},
    )
    add_subcommand(
        what,
        "move",
        "carry the entries of the ledger's own file over into that of stored sessions",
        {"toolstile ledger move": "carry them over, once the hosts are stopped"},
    )


def _configure_resolve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", type=_text, metavar="KEY", help=_WHICH)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--done", action="store_true", help="it has happened; calls get the message and value"
    )
    how.add_argument(
        "--not-done", action="store_true", help="it has not happened; the next call runs"
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
    "ledger", _configure, "show what calls have done once, and settle what is unknown"
)
ARGUMENTS: Final = (LEDGER,)

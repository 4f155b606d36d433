"""What the ledger adds to the command line: `toolyard ledger`, its arguments and help.

What runs the commands is imported when one of them runs.
"""

from __future__ import annotations

import argparse
from typing import Final

from toolyard_hookspecs import Command, HostHandle

_HELP: Final = """\
A KEY is a whole key, or enough of its hash, as listed, to be the only one.

examples:
  toolyard ledger list --state unknown                what may have happened, or not
  toolyard ledger show 5d41402abc4b                   all that is known of one call
  toolyard ledger resolve 5d41402abc4b --done         it has happened: do not run it again
  toolyard ledger resolve 5d41402abc4b --not-done     it has not: the next call runs
  toolyard ledger invalidate --tool create_order      forget what a tool has done
  toolyard ledger prune                               remove what has expired
"""


def offered_commands() -> list[Command]:
    """Return the command."""
    return [
        Command(
            "ledger",
            "show what calls have done once, and settle what is unknown",
            run=_run,
            configure=_configure,
        )
    ]


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    what = parser.add_subparsers(
        metavar="list|show|resolve|invalidate|prune", dest="what", required=True
    )
    listing = what.add_parser("list", help="list what is recorded", allow_abbrev=False)
    listing.add_argument("--tool", type=_text, metavar="NAME", help="only calls of this tool")
    listing.add_argument(
        "--state", choices=("claimed", "done", "unknown"), help="only calls in this state"
    )
    show = what.add_parser("show", help="show all that is known of a call", allow_abbrev=False)
    show.add_argument("key", type=_text, metavar="KEY", help="which one")
    _configure_resolve(what.add_parser("resolve", help="settle an unknown", allow_abbrev=False))
    forget = what.add_parser("invalidate", help="forget calls", allow_abbrev=False)
    which = forget.add_mutually_exclusive_group(required=True)
    which.add_argument("key", type=_text, metavar="KEY", nargs="?", help="which one")
    which.add_argument("--tool", type=_text, metavar="NAME", help="all of this tool")
    which.add_argument("--all", action="store_true", help="all there are")
    what.add_parser("prune", help="remove what has expired", allow_abbrev=False)


def _configure_resolve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", type=_text, metavar="KEY", help="which one")
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


def _run(host: HostHandle, args: argparse.Namespace) -> int:
    # No other command has to wait for it.
    from toolyard_plugins.ledger.commands import run_command

    return run_command(host, args)

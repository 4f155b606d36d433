"""The arguments of `toolstile approvals`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

if TYPE_CHECKING:
    from toolstile_plugins.command_options.arguments import Adder

_HELP: Final = """\
examples:
  toolstile approvals list                                 the questions that wait
  toolstile approvals list --watch                         and those that come
  toolstile approvals show 3f1c9a7d2b4e                    all that a person needs to decide
  toolstile approvals approve 3f1c9a7d2b4e                 let the call run, or keep what it did
  toolstile approvals approve 3f1c9a7d2b4e --always tool   and calls like it, in this session
  toolstile approvals grants                               what is approved from now on
  toolstile approvals revoke 5d0c1e8f7a26                  ask about it again
  toolstile approvals deny 3f1c9a7d2b4e --reason "No."     refuse it; the model reads the reason
  toolstile approvals edit 3f1c9a7d2b4e '{"amount": 5}'    run it with these arguments
  toolstile approvals resume                               run what was answered since
"""
_COMMANDS: Final = {
    "show": (
        "show all of a question",
        "show 3f1c9a7d2b4e",
        "see tool, reasons, arguments and changes",
    ),
    "approve": (
        "let the call of a question run",
        "approve 3f1c9a7d2b4e",
        "approve it as it is shown",
    ),
    "deny": (
        "refuse the call of a question",
        'deny 3f1c9a7d2b4e --reason "Ada has left"',
        "tell the model why not",
    ),
    "withdraw": (
        "end a question without an answer",
        "withdraw 3f1c9a7d2b4e",
        "have the call answered as not carried out",
    ),
    "edit": (
        "run the call of a question with other arguments",
        """edit 3f1c9a7d2b4e '{"amount": 5}'""",
        "run it with these",
    ),
}


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    what = parser.add_subparsers(
        metavar="list|show|approve|deny|edit|withdraw|resume|grants|revoke",
        dest="what",
        required=True,
    )
    listing = add_subcommand(
        what,
        "list",
        "list the questions that wait for an answer",
        {
            "toolstile approvals list": "list them, the oldest first",
            "toolstile approvals list --watch --json": "print each as JSON, also those that come",
        },
    )
    listing.add_argument("--watch", action="store_true", help="go on, until Ctrl-C")
    commands = {
        name: add_subcommand(what, name, text, {f"toolstile approvals {typed}": does})
        for name, (text, typed, does) in _COMMANDS.items()
    }
    for command in commands.values():
        command.add_argument("ticket", metavar="TICKET", help="the question, as it is listed")
    commands["deny"].add_argument("--reason", metavar="TEXT", help="why not; the model reads it")
    commands["edit"].add_argument(
        "arguments", metavar="JSON", help="the arguments; a mask leaves a secret as it is"
    )
    for name in ("approve", "deny", "edit"):
        commands[name].add_argument(
            "--digest", help="the digest that was shown; another question is not answered"
        )
    _add_grants(what, commands["approve"])
    add_subcommand(
        what,
        "resume",
        "resume the calls of stored sessions that were answered",
        {"toolstile approvals resume": "resume them, and print what came of each"},
    )


def _add_grants(what: Adder, approve: argparse.ArgumentParser) -> None:
    approve.add_argument(
        "--always",
        choices=["exact", "tool"],
        help="grant it from now on: with the same arguments, or the tool whatever its arguments",
    )
    approve.add_argument(
        "--for",
        dest="scope",
        choices=["session", "principal", "everybody"],
        help="whose calls are granted (default: session)",
    )
    approve.add_argument(
        "--hours", type=float, metavar="N", help="how long it holds, at most 720 (default: 8)"
    )
    approve.add_argument(
        "--times", type=int, metavar="N", help="how many calls are granted (default: any number)"
    )
    add_subcommand(
        what,
        "grants",
        "list what is approved from now on",
        {"toolstile approvals grants": "list it, the oldest first"},
    )
    revoke = add_subcommand(
        what,
        "revoke",
        "revoke a grant, so that people are asked again",
        {"toolstile approvals revoke 5d0c1e8f7a26": "revoke it"},
    )
    revoke.add_argument("grant", metavar="GRANT", help="the grant, as it is listed")


APPROVALS: Final = Arguments(
    "approvals", _configure, "show the questions that calls ask, and answer them"
)
ARGUMENTS: Final = (APPROVALS,)

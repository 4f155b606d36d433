"""The arguments of `toolstile approvals`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

if TYPE_CHECKING:
    from toolstile_plugins.command_options.arguments import Adder

_HELP: Final = """\
examples:
  toolstile approvals list                                 list the pending questions
  toolstile approvals list --watch                         and wait for new questions
  toolstile approvals show 3f1c9a7d2b4e                    show everything needed to decide
  toolstile approvals approve 3f1c9a7d2b4e                 let the call run, or keep its changes
  toolstile approvals approve 3f1c9a7d2b4e --always tool   also approve later calls of the tool
  toolstile approvals grants                               list the grants
  toolstile approvals revoke 5d0c1e8f7a26                  revoke a grant
  toolstile approvals deny 3f1c9a7d2b4e --reason "No."     deny the call; the model reads the reason
  toolstile approvals edit 3f1c9a7d2b4e '{"amount": 5}'    run the call with these arguments
  toolstile approvals resume                               resume the answered calls
"""
_COMMANDS: Final = {
    "show": (
        "show a question in full",
        "show 3f1c9a7d2b4e",
        "show tool, reasons, arguments and changes",
    ),
    "approve": (
        "approve the call of a question",
        "approve 3f1c9a7d2b4e",
        "approve it as shown",
    ),
    "deny": (
        "deny the call of a question",
        'deny 3f1c9a7d2b4e --reason "Ada has left"',
        "deny it; the model reads the reason",
    ),
    "withdraw": (
        "close a question without an answer",
        "withdraw 3f1c9a7d2b4e",
        "the model reads that the call did not run",
    ),
    "edit": (
        "run the call of a question with other arguments",
        """edit 3f1c9a7d2b4e '{"amount": 5}'""",
        "run it with these arguments",
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
        "list the pending questions",
        {
            "toolstile approvals list": "list them, oldest first",
            "toolstile approvals list --watch --json": "print each as JSON, also new ones",
        },
    )
    listing.add_argument("--watch", action="store_true", help="keep listing new ones until Ctrl-C")
    commands = {
        name: add_subcommand(what, name, text, {f"toolstile approvals {typed}": does})
        for name, (text, typed, does) in _COMMANDS.items()
    }
    for command in commands.values():
        command.add_argument("ticket", metavar="TICKET", help="the ticket, from `approvals list`")
    commands["deny"].add_argument("--reason", metavar="TEXT", help="the reason; the model reads it")
    commands["edit"].add_argument(
        "arguments", metavar="JSON", help="the new arguments; a masked value keeps its secret"
    )
    for name in ("approve", "deny", "edit"):
        commands[name].add_argument(
            "--digest", help="answer only if this is still the digest of the question"
        )
    _add_grants(what, commands["approve"])
    add_subcommand(
        what,
        "resume",
        "resume the answered calls of stored sessions",
        {"toolstile approvals resume": "resume them, and print the outcome of each"},
    )


def _add_grants(what: Adder, approve: argparse.ArgumentParser) -> None:
    approve.add_argument(
        "--always",
        choices=["exact", "tool"],
        help="also approve later calls: with the same arguments, or of the same tool",
    )
    approve.add_argument(
        "--for",
        dest="scope",
        choices=["session", "principal", "everybody"],
        help="whose later calls are approved (default: session)",
    )
    approve.add_argument(
        "--hours", type=float, metavar="N", help="how long it lasts, at most 720 (default: 8)"
    )
    approve.add_argument(
        "--times", type=int, metavar="N", help="how many calls to approve (default: any number)"
    )
    add_subcommand(
        what,
        "grants",
        "list the grants, which approve later calls",
        {"toolstile approvals grants": "list them, oldest first"},
    )
    revoke = add_subcommand(
        what,
        "revoke",
        "revoke a grant, so that people are asked again",
        {"toolstile approvals revoke 5d0c1e8f7a26": "revoke it"},
    )
    revoke.add_argument("grant", metavar="GRANT", help="the grant's id, from `approvals grants`")


APPROVALS: Final = Arguments(
    "approvals", _configure, "list and answer the questions of calls that need approval"
)
ARGUMENTS: Final = (APPROVALS,)

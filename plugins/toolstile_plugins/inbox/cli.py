"""The command `toolstile approvals`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolstile_plugins.cli_support import besides, late, state_folder, subcommands

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

_HELP: Final = """\
examples:
  toolstile approvals                                      list the pending questions
  toolstile approvals list --watch                         and wait for new questions
  toolstile approvals --wrapped list                       list the questions of `toolstile wrap`
  toolstile approvals show 3f1c9a7d2b4e                    show everything needed to decide
  toolstile approvals approve 3f1c9a7d2b4e                 let the call run, or keep its changes
  toolstile approvals approve 3f1c9a7d2b4e --always tool   also approve later calls of the tool
  toolstile approvals approve --turn 8c2e5a1f0b7d          let all calls of one turn run
  toolstile approvals grants                               list the grants
  toolstile approvals revoke 5d0c1e8f7a26                  revoke a grant
  toolstile approvals deny 3f1c9a7d2b4e --reason "No."     deny the call; the model reads the reason
  toolstile approvals edit 3f1c9a7d2b4e '{"amount": 5}'    run the call with these arguments
  toolstile approvals resume                               resume the answered calls
"""
_COMMANDS: Final = {
    "show": ("show a question in full", "", "show tool, reasons, arguments and changes"),
    "approve": ("approve the call of a question", "", "approve it as shown"),
    "deny": (
        "deny the call of a question",
        ' --reason "Ada has left"',
        "deny it; the model reads the reason",
    ),
    "withdraw": (
        "close a question without an answer",
        "",
        "the model reads that the call did not run",
    ),
    "edit": (
        "run the call of a question with other arguments",
        """ '{"amount": 5}'""",
        "run it with these arguments",
    ),
}


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    text = "the questions of `toolstile wrap`, whatever the configuration says"
    parser.add_argument("--wrapped", action="store_true", help=text)
    add = subcommands(parser, required=False)
    parser.set_defaults(what="list", watch=False)
    listing = add(
        "list",
        "list the pending questions",
        ("", "list them, oldest first"),
        ("--watch --json", "print each as JSON, also new ones"),
    )
    listing.add_argument("--watch", action="store_true", help="keep listing new ones until Ctrl-C")
    commands = {
        name: add(name, text, (f"3f1c9a7d2b4e{typed}", does))
        for name, (text, typed, does) in _COMMANDS.items()
    }
    for name, command in commands.items():
        many = "?" if name in {"show", "approve", "deny"} else None
        ticket = "the ticket, from `approvals list`"
        command.add_argument("ticket", metavar="TICKET", nargs=many, help=ticket)
        if many is not None:
            command.add_argument("--turn", metavar="ID", help="all questions of this turn instead")
    commands["deny"].add_argument("--reason", metavar="TEXT", help="the reason; the model reads it")
    commands["edit"].add_argument(
        "arguments", metavar="JSON", help="the new arguments; a masked value keeps its secret"
    )
    for name in ("approve", "deny", "edit"):
        commands[name].add_argument(
            "--digest", help="answer only if this is still the digest of the question"
        )
    approve = commands["approve"]
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
    add("grants", "list the grants, which approve later calls", ("", "list them, oldest first"))
    revoke = add(
        "revoke", "revoke a grant, so that people are asked again", ("5d0c1e8f7a26", "revoke it")
    )
    revoke.add_argument("grant", metavar="GRANT", help="the grant's id, from `approvals grants`")
    add(
        "resume",
        "resume the answered calls of stored sessions",
        ("", "resume them, and print the outcome of each"),
    )


def wrapped() -> Path:
    """Return the file of the questions about the calls of wrapped MCP servers."""
    return state_folder() / "wrap/inbox.db"


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="approvals",
            help="list and answer the questions of calls that need approval",
            run=late("toolstile_plugins.inbox.commands:run_command"),
            configure=_configure,
            settings=lambda args: {"plugins.inbox.path": str(wrapped())} if args.wrapped else {},
            purpose=lambda args: "call" if args.what == "resume" else "look",
            decides=besides("", "list", "show", "grants"),
        )
    ]

"""The command `toolstile policy`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolstile_plugins.cli_support import late, subcommands

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

_OFF: Final = {f"plugins.record.{place}": None for place in ("file", "folder", "replay")}
"""No call of a test is recorded."""

_HELP: Final = """\
examples:
  toolstile policy explain pay '{"amount": 501}'   show which policies govern a call, and why
  toolstile policy test mail.test.toml    test the policies on the cases of a file
  toolstile policy backtest records       list recorded calls that they would decide differently
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add = subcommands(parser)
    explain = add(
        "explain",
        "show the decision of each policy on a call, and why; no handler runs",
        ("pay '{\"amount\": 501}'", "explain the decisions on a call"),
        ("pay - --request 'Pay Ann.'", "read the arguments from stdin"),
        ("--command 'git status && rm -rf x'", "explain the commands of a shell line"),
    )
    explain.add_argument("name", nargs="?", metavar="NAME", help="the tool")
    explain.add_argument(
        "arguments",
        nargs="?",
        default="{}",
        metavar="JSON",
        help="its arguments, a JSON object; - for standard input",
    )
    explain.add_argument(
        "--command",
        dest="line",
        metavar="LINE",
        help="a shell line: show the verdict on each of its commands",
    )
    explain.add_argument("--request", action="append", metavar="TEXT", help="the user's request")
    explain.add_argument("--user", metavar="ID", help="the principal for whom the call runs")
    explain.add_argument(
        "--group", action="append", metavar="NAME", help="a group of this principal"
    )
    test = add(
        "test",
        "test the policies on the cases of a file; no handler runs",
        ("mail.test.toml", "print the result of each case"),
        ("mail.test.toml --json", "print one JSON object per case"),
    )
    test.add_argument("file", type=Path, metavar="FILE", help="the cases, as TOML")
    backtest = add(
        "backtest",
        "list recorded calls that the policies would decide differently; no handler runs",
        ("calls.jsonl", "list the changes by policy and tool"),
        ("records", "test on all records of a folder"),
        ("records --save records.backtest.json", "save the result, and show it in the console"),
    )
    backtest.add_argument(
        "records", type=Path, nargs="+", metavar="RECORD", help="records, or folders of them"
    )
    backtest.add_argument(
        "--save",
        type=Path,
        metavar="FILE",
        help="also write the result to a JSON file; the console shows RECORD.backtest.json",
    )


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="policy",
            help="explain the policies, and test them on cases or recorded calls",
            run=late("toolstile_plugins.rules.commands:run_command"),
            configure=_configure,
            settings=lambda _: _OFF,
        )
    ]

"""The arguments of `toolstile policy`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

_HELP: Final = """\
examples:
  toolstile policy explain pay '{"amount": 501}'   show which policies govern a call, and why
  toolstile policy test mail.test.toml    test the policies on the cases of a file
  toolstile policy backtest records       list recorded calls that they would decide differently
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    what = parser.add_subparsers(metavar="explain|test|backtest", dest="what", required=True)
    explain = add_subcommand(
        what,
        "explain",
        "show the decision of each policy on a call, and why; no handler runs",
        {
            "toolstile policy explain pay '{\"amount\": 501}'": "explain the decisions on a call",
            "toolstile policy explain pay - --request 'Pay Ann.'": "read the arguments from stdin",
        },
    )
    explain.add_argument("name", metavar="NAME", help="the tool")
    explain.add_argument(
        "arguments",
        nargs="?",
        default="{}",
        metavar="JSON",
        help="its arguments, a JSON object; - for standard input",
    )
    explain.add_argument("--request", action="append", metavar="TEXT", help="the user's request")
    explain.add_argument("--user", metavar="ID", help="the principal for whom the call runs")
    explain.add_argument(
        "--group", action="append", metavar="NAME", help="a group of this principal"
    )
    test = add_subcommand(
        what,
        "test",
        "test the policies on the cases of a file; no handler runs",
        {
            "toolstile policy test mail.test.toml": "print the result of each case",
            "toolstile policy test mail.test.toml --json": "print one JSON object per case",
        },
    )
    test.add_argument("file", type=Path, metavar="FILE", help="the cases, as TOML")
    backtest = add_subcommand(
        what,
        "backtest",
        "list recorded calls that the policies would decide differently; no handler runs",
        {
            "toolstile policy backtest calls.jsonl": "list the changes by policy and tool",
            "toolstile policy backtest records": "test on all records of a folder",
        },
    )
    backtest.add_argument(
        "records", type=Path, nargs="+", metavar="RECORD", help="records, or folders of them"
    )


POLICY: Final = Arguments(
    "policy", _configure, "explain the policies, and test them on cases or recorded calls"
)
ARGUMENTS: Final = (POLICY,)

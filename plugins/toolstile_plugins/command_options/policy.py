"""The arguments of `toolstile policy`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

_HELP: Final = """\
examples:
  toolstile policy explain pay '{"amount": 501}'   see which policies govern a call, and why
  toolstile policy test mail.test.toml    see whether the policies decide as their tests say
  toolstile policy backtest records       see which recorded calls they would decide otherwise
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    what = parser.add_subparsers(metavar="explain|test|backtest", dest="what", required=True)
    explain = add_subcommand(
        what,
        "explain",
        "see what each policy that governs a call says of it, and why; no handler runs",
        {
            "toolstile policy explain pay '{\"amount\": 501}'": "tell it of a call",
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
    explain.add_argument(
        "--request", action="append", metavar="TEXT", help="what the user asks for"
    )
    explain.add_argument("--user", metavar="ID", help="the principal for whom the call runs")
    explain.add_argument(
        "--group", action="append", metavar="NAME", help="a group of this principal"
    )
    test = add_subcommand(
        what,
        "test",
        "see whether the policies decide as tests in a file say; no handler runs",
        {
            "toolstile policy test mail.test.toml": "say of each case whether it holds",
            "toolstile policy test mail.test.toml --json": "print one JSON object a case",
        },
    )
    test.add_argument("file", type=Path, metavar="FILE", help="the cases, as TOML")
    backtest = add_subcommand(
        what,
        "backtest",
        "see which recorded calls the policies would decide otherwise; no handler runs",
        {
            "toolstile policy backtest calls.jsonl": "list the changes by policy and tool",
            "toolstile policy backtest records": "try the records of a folder",
        },
    )
    backtest.add_argument(
        "records", type=Path, nargs="+", metavar="RECORD", help="records, or folders of them"
    )


POLICY: Final = Arguments(
    "policy", _configure, "explain the policies on a call, try them by tests, or on recorded calls"
)
ARGUMENTS: Final = (POLICY,)

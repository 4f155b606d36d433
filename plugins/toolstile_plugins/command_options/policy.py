"""The arguments of `toolstile policy`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

_HELP: Final = """\
examples:
  toolstile policy test mail.test.toml    see whether the policies decide as their tests say
  toolstile policy backtest records       see which recorded calls they would decide otherwise
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    what = parser.add_subparsers(metavar="test|backtest", dest="what", required=True)
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
    "policy", _configure, "try the policies by tests, or against recorded calls"
)
ARGUMENTS: Final = (POLICY,)

"""The arguments of `toolstile database`."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

_HELP: Final = """\
examples:
  toolstile database check                    check whether the tables can be used
  toolstile database upgrade                  create the tables, or upgrade them to this version
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    what = parser.add_subparsers(metavar="upgrade|check", dest="what", required=True)
    add_subcommand(
        what,
        "check",
        "check whether the tables in the database can be used",
        {
            "toolstile database check": "the exit status is 1 if they cannot",
            "toolstile database check --json": "print one JSON object per part",
        },
    )
    upgrade = add_subcommand(
        what,
        "upgrade",
        "create the tables in the database, or upgrade them to this version",
        {
            "toolstile database upgrade": "upgrade all tables, or none",
            "toolstile database upgrade --sql": "print the SQL for an administrator to run",
        },
    )
    upgrade.add_argument(
        "--sql", action="store_true", help="print the statements without running them"
    )


DATABASE: Final = Arguments("database", _configure, "check and upgrade the tables in PostgreSQL")
ARGUMENTS: Final = (DATABASE,)

"""The arguments of `toolstile database`."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

_HELP: Final = """\
examples:
  toolstile database check                    whether its tables can be used
  toolstile database upgrade                  make them, or bring them to this version
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    what = parser.add_subparsers(metavar="upgrade|check", dest="what", required=True)
    add_subcommand(
        what,
        "check",
        "tell whether the tables in the database can be used",
        {
            "toolstile database check": "exit with 1 where they cannot",
            "toolstile database check --json": "print one JSON object for each part",
        },
    )
    upgrade = add_subcommand(
        what,
        "upgrade",
        "make the tables in the database, or bring them to this version",
        {
            "toolstile database upgrade": "change them, all or none",
            "toolstile database upgrade --sql": "print what would be run, for who may",
        },
    )
    upgrade.add_argument("--sql", action="store_true", help="print the statements, and run none")


DATABASE: Final = Arguments(
    "database", _configure, "check the tables in PostgreSQL, and upgrade them"
)
ARGUMENTS: Final = (DATABASE,)

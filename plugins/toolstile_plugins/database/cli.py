"""The command `toolstile database`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.cli_support import late, subcommands

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

_HELP: Final = """\
examples:
  toolstile database check                    check whether the tables can be used
  toolstile database upgrade                  create the tables, or upgrade them to this version
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add = subcommands(parser)
    add(
        "check",
        "check whether the tables in the database can be used",
        ("", "the exit status is 1 if they cannot"),
        ("--json", "print one JSON object per part"),
    )
    upgrade = add(
        "upgrade",
        "create the tables in the database, or upgrade them to this version",
        ("", "upgrade all tables, or none"),
        ("--sql", "print the SQL for an administrator to run"),
    )
    upgrade.add_argument(
        "--sql", action="store_true", help="print the statements without running them"
    )


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="database",
            help="check and upgrade the tables in PostgreSQL",
            run=late("toolstile_plugins.database.commands:run_command"),
            configure=_configure,
            purpose="look",
        )
    ]

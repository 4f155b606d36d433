"""`toolstile new`: a package to begin with."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from toolstile_cli.errors import UsageError
from toolstile_cli.exit_codes import Exit
from toolstile_cli.scaffold import Names, names_for, write_package


def new(args: argparse.Namespace) -> int:
    """Write a package for a new plugin, and say what to do next.

    Raises:
        UsageError: When its name cannot be taken, or its folder not be made; nothing is written.
    """
    try:
        names = names_for(args.name)
        folder, files = _written(names, args)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if args.out is not None:
        args.out.write(
            {
                "folder": str(folder),
                "kind": args.kind,
                "plugin": names.plugin,
                "distribution": names.distribution,
                "package": names.package,
                "files": files,
            }
        )
        return Exit.OK
    sys.stdout.write(
        f"{folder}{os.sep} has a plugin, {names.plugin}, with tests that pass. Next:\n\n"
        f"  cd {shlex.quote(str(folder))}\n"
        "  python -m pip install -e . pytest\n"
        "  toolstile plugins\n"
        "  python -m pytest\n\n"
        f"Then make it yours, beginning with src/{names.package}/__init__.py.\n"
    )
    return Exit.OK


def _written(names: Names, args: argparse.Namespace) -> tuple[Path, list[str]]:
    try:
        return write_package(names, args.kind, args.path)
    except OSError as error:
        raise UsageError(
            f"{args.path / names.distribution} cannot be written: {error.strerror or error}. Give "
            "another place with --path."
        ) from error

"""The option of commands that make calls: the directory that their file tools work in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolstile_hookspecs import Command


def _add_workspace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workspace",
        type=_directory,
        metavar="DIR",
        help="let the file tools work in this directory, not in memory",
    )


def _directory(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "it names no directory; give one, such as . for where you are"
        )
    path = Path(text).absolute()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a directory; make it first")
    return str(path)


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    return {} if args.workspace is None else {"plugins.vfs.root": args.workspace}


def commands(command: type[Command]) -> list[Command]:
    """Return the commands with the option."""
    return [
        command(name=name, extends=True, optional=True, configure=_add_workspace, settings=_chosen)
        for name in ("run", "call", "replay", "mcp", "ask", "check-done", "undo")
    ]

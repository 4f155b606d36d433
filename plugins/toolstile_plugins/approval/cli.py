"""The option of commands that make calls: how these are approved."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

NAME: Final = "approval"


def _add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--approve",
        choices=["all", "none", "read", "ask"],
        help="approve all calls that need approval, none, only calls of tools that read, or ask "
        "you; by default you are asked if there is a terminal",
    )


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    if args.approve is None:
        return {}
    return {"approver": NAME, f"plugins.{NAME}.mode": args.approve}


def commands(command: type[Command]) -> list[Command]:
    """Return the commands with the option."""
    return [
        command(
            name=name,
            extends=True,
            optional=True,
            configure=_add_option,
            settings=_chosen,
            defaults={"approver": NAME},
        )
        for name in ("run", "call", "replay", "ask")
    ]

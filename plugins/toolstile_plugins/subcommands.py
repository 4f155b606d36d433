"""The commands beneath a plugin's command: each with a description and examples in its help."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Adder = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - has no other name  # pyright: ignore[reportPrivateUsage]


def add_subcommand(
    adder: Adder, name: str, says: str, examples: Mapping[str, str]
) -> argparse.ArgumentParser:
    """Add a command, and return its parser.

    Args:
        adder: What `add_subparsers` returned.
        name: What is typed.
        says: One line for the help.
        examples: What is typed, and what it does.
    """
    width = max(map(len, examples))
    lines = [f"  {typed:{width}}  {does}" for typed, does in examples.items()]
    return adder.add_parser(
        name,
        help=says,
        description=f"{says[:1].upper()}{says[1:]}.",
        epilog="\n".join(["examples:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )

"""The shape of arguments that a plugin adds to a command, and of commands beneath a command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from toolstile_hookspecs import Command, HostHandle
    from toolstile_hookspecs.execution.purposes import Purpose

    Adder = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - has no other name  # pyright: ignore[reportPrivateUsage]


class Arguments(NamedTuple):
    """Arguments that a plugin adds to a command.

    Args:
        command: The command's name.
        configure: Adds the arguments to the command's parser.
        help: One line for the list of commands, where the plugin brings the command itself.
    """

    command: str
    configure: Callable[[argparse.ArgumentParser], None]
    help: str = ""

    def offered(
        self,
        module: str,
        purpose: Purpose | Callable[[argparse.Namespace], Purpose] = "call",
        settings: Callable[[argparse.Namespace], Mapping[str, Any]] = lambda _: {},
    ) -> Command:
        """Return the command, run by `run_command` of a module that is imported only then.

        Args:
            module: The name of the module.
            purpose: See `Command`.
            settings: See `Command`.
        """
        from toolstile_hookspecs import Command  # quick help has no use for it

        def run(host: HostHandle, args: argparse.Namespace) -> int:
            status: int = import_module(module).run_command(host, args)
            return status

        return Command(
            self.command,
            self.help,
            run=run,
            configure=self.configure,
            settings=settings,
            purpose=purpose,
        )


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

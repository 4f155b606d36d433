"""The console: pages on this machine that show what waits for a person, and take the answers.

`toolstile console` serves them; `Console` is them as an ASGI application. Settings,
`[plugins.console]`: see `ConsoleSettings`.
"""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from toolstile_hookspecs import Command, ConfigurationError, HostHandle, hookimpl
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.command_options.console import CONSOLE
from toolstile_plugins.console.settings import ConsoleSettings

if TYPE_CHECKING:
    from toolstile_plugins.console.app import Console

__all__ = ["Console", "ConsoleSettings"]


def __getattr__(name: str) -> Any:
    # Late: a web framework is heavy, and few processes serve the console.
    if name == "Console":
        from toolstile_plugins.console.app import Console

        return Console
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return ConsoleSettings


@hookimpl
def toolstile_commands() -> list[Command]:
    """Add `toolstile console`."""
    return [Command(CONSOLE.command, CONSOLE.help, run=_run, configure=CONSOLE.configure)]


@contextmanager
def needing_extra() -> Generator[None]:
    """Say how to install what an import within the block finds missing.

    Raises:
        ConfigurationError: The extra is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"The console needs {error.name}, which is not installed. {extra_remedy('console')}."
        ) from error


def _run(host: HostHandle, args: argparse.Namespace) -> int:
    with needing_extra():
        from toolstile_plugins.console.server import serve
    return serve(host, args.port)

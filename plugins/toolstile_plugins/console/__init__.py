"""The console: pages on this machine with the questions to a person, the calls and the ledger.

`toolstile console` serves them; `Console` is an ASGI application. Settings, `[plugins.console]`:
see `ConsoleSettings`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from toolstile_hookspecs import Command, hookimpl
from toolstile_hookspecs.support.late_names import late_names
from toolstile_plugins.console import cli
from toolstile_plugins.console.settings import ConsoleSettings

if TYPE_CHECKING:
    from toolstile_plugins.console.app import Console

__all__ = ["Console", "ConsoleSettings"]


# Late: a web framework is heavy, and few processes serve the console.
__getattr__ = late_names(__name__, {"app": "Console"})


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return ConsoleSettings


@hookimpl
def toolstile_commands() -> list[Command]:
    return cli.commands(Command)

"""Agents: a loop over the host that asks a model, carries out its calls and returns its answer.

`Agent(prompt, adapter=..., host=...)` answers texts; `MainLoop` prepares a prompt for each request.
`toolstile ask` asks with the tools of the host. Settings, `[plugins.agent]`: see `AgentSettings`.

Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from toolstile_hookspecs import Command, hookimpl
from toolstile_plugins.agent import cli
from toolstile_plugins.agent.settings import AgentSettings as AgentSettings

if TYPE_CHECKING:
    from toolstile_plugins.agent.api import *  # noqa: F403 - loaded when first used


def __getattr__(name: str) -> Any:
    # No command has to wait for the loop, but `ask`; a host looks for hooks alone.
    is_hook = name.startswith(("_", "toolstile_"))
    api = None if is_hook else importlib.import_module(f"{__name__}.api")
    if not hasattr(api, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(api, name)


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return AgentSettings


@hookimpl
def toolstile_commands() -> list[Command]:
    """Offer `toolstile ask` and `toolstile check-done`."""
    return cli.commands(Command)

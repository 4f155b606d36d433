"""The hook of coding agents: their own tools pass our stages.

Settings, `[plugins.hook]`: see `HookSettings`. `toolstile hook install` puts the hook into the
settings of an agent; a helper process per workspace decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from toolstile_hookspecs import Command, HostHandle, StatusPart, hookimpl
from toolstile_plugins.hook import cli
from toolstile_plugins.hook.client import folder_of
from toolstile_plugins.hook.settings import HookSettings
from toolstile_plugins.hook.survey import reported

__all__ = ["HookSettings"]


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return HookSettings


@hookimpl
def toolstile_commands() -> list[Command]:
    is_hooked = Path(folder_of(str(Path.cwd()))).is_dir()
    undo = [Command("undo", extends=True, defaults=cli.UNDO)] if is_hooked else []
    return [*cli.commands(Command), *undo]


@hookimpl
def toolstile_status(host: HostHandle) -> Iterator[StatusPart]:
    """Report the governed agents, and their calls that can be undone."""
    return reported(host)

"""Workers: handlers of chosen tools run in other processes, and begin once despite crashes.

Settings, `[plugins.workers]`: see `WorkersSettings`. `toolstile worker` starts a worker.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from pydantic import BaseModel

from toolstile_hookspecs import Command, HostHandle, hookimpl
from toolstile_plugins.workers import cli
from toolstile_plugins.workers.settings import WorkersSettings

__all__ = ["WorkersSettings"]


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return WorkersSettings


@hookimpl
def toolstile_lifespan(host: HostHandle, settings: WorkersSettings) -> AbstractContextManager[None]:
    """Run calls of the chosen tools on workers while the host is open."""
    if settings.runs is None:
        return nullcontext()
    from toolstile_plugins.workers.remote_call import calling  # late: most hosts have no workers

    return calling(host, settings)


@hookimpl
def toolstile_commands() -> list[Command]:
    """Add `toolstile worker`."""
    return cli.commands(Command)

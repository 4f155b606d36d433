"""The sandbox: a tool that runs commands; the changes of each are committed or rolled back.

Settings, `[plugins.sandbox]`: see `SandboxSettings`. Commands work on the workspace of
`[plugins.vfs]`.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import BaseModel

from toolstile_hookspecs import Diagnostic, Section, ToolContext, applies_to, hookimpl
from toolstile_hookspecs.support.late_names import late_names
from toolstile_plugins.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.backend import (
        Backend,
        Command,
        CommandResult,
        Running,
        SandboxUnavailable,
        ShellParams,
    )
    from toolstile_plugins.sandbox.layout import Layout
    from toolstile_plugins.sandbox.podman.container import PodmanConfig
    from toolstile_plugins.sandbox.tool import PodmanSandboxSection, ShellSection

__all__ = [
    "Backend",
    "Command",
    "CommandResult",
    "Layout",
    "PodmanConfig",
    "PodmanSandboxSection",
    "Running",
    "SandboxSettings",
    "SandboxUnavailable",
    "ShellParams",
    "ShellSection",
]

__getattr__ = late_names(
    __name__,
    {
        "backend": "Backend Command CommandResult Running SandboxUnavailable ShellParams",
        "layout": "Layout",
        "podman.container": "PodmanConfig",
        "tool": "PodmanSandboxSection ShellSection",
    },
)

toolstile_on_request = {"shell_execute": "for commands, add [plugins.sandbox] to the configuration"}


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return SandboxSettings


@hookimpl
def toolstile_diagnose(settings: SandboxSettings) -> Iterator[Diagnostic]:
    """Check whether commands can run here, and how they are contained."""
    from toolstile_plugins.sandbox.backend import backend_of  # only `toolstile doctor` asks

    return backend_of(settings).findings()


@hookimpl
@contextmanager
def toolstile_lifespan(settings: SandboxSettings) -> Generator[None]:
    """Remove the directories, cgroups and containers of killed hosts."""
    # Late: a platform without the modules of Unix can load this one.
    from toolstile_plugins.sandbox.scratch import clear_up

    if settings.backend == "podman":
        from toolstile_plugins.sandbox.podman.container import Podman

        # Before their directories, which containers may still use.
        Podman(settings).remove_strays()
    clear_up(settings)
    yield


@hookimpl
@applies_to(lambda tool: "shell" in tool.tags)
def toolstile_rollback(context: ToolContext) -> None:
    """Put the output of a cancelled command into the event of its call."""
    # Not imported, because a module that was not loaded, or not wholly, has run no command.
    shell = sys.modules.get("toolstile_plugins.sandbox.shell")
    run = getattr(shell, "RUNS", {}).pop(id(context), None)
    if run is not None:
        for name in ("stdout", "stderr"):
            context.set_attribute(f"sandbox.{name}", getattr(run, name).output().text())


@hookimpl
def toolstile_sections(settings: SandboxSettings) -> list[Section]:
    if settings.backend == "podman":
        from toolstile_plugins.sandbox.podman.container import PodmanConfig
        from toolstile_plugins.sandbox.tool import PodmanSandboxSection

        config = PodmanConfig.of(settings)
        # Without file tools, because [plugins.vfs] offers them.
        return [PodmanSandboxSection(config=config, sandbox=settings, parts=("shell", "python"))]
    from toolstile_plugins.sandbox.tool import ShellSection

    return [ShellSection(config=settings)]

"""The workspace: tools for files, in memory or in a directory, offered on request.

Settings, `[plugins.vfs]`: see `VfsConfig`. `toolstile run --workspace DIR` and
`toolstile call --workspace DIR` work on a directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from toolstile_hookspecs import (
    Binding,
    Command,
    ConfigurationError,
    Diagnostic,
    Section,
    effect_free,
    hookimpl,
)
from toolstile_plugins.vfs import cli
from toolstile_plugins.vfs.section import VfsToolsSection, open_workspace, workspace_binding
from toolstile_plugins.vfs.settings import Mount, VfsConfig
from toolstile_plugins.vfs.workspace import VirtualFilesystem

if TYPE_CHECKING:
    from toolstile_plugins.vfs.backends.disk.store import DiskStore

__all__ = [
    "DiskStore",
    "Mount",
    "VfsConfig",
    "VfsToolsSection",
    "VirtualFilesystem",
    "open_workspace",
]

toolstile_on_request = (
    "the host has no workspace; add --workspace DIR, or [plugins.vfs] to the configuration"
)


def __getattr__(name: str) -> Any:
    """Import `DiskStore` when it is first used: only workspaces on disk need its modules."""
    if name != "DiskStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from toolstile_plugins.vfs.backends.disk.store import DiskStore

    return DiskStore


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return VfsConfig


@hookimpl
def toolstile_diagnose(settings: VfsConfig) -> Iterator[Diagnostic]:
    """Find out whether the workspace can be worked in."""
    from toolstile_plugins.vfs.doctor import findings  # only `toolstile doctor` asks

    return findings(settings)


@hookimpl
@effect_free
def toolstile_lifespan(settings: VfsConfig) -> None:
    """Refuse a missing directory when the host opens, before a call needs it."""
    # `Path.is_dir` raises without access, before Python 3.14.
    if settings.root is not None and not os.path.isdir(settings.root):  # noqa: PTH112
        msg = f"plugins.vfs.root: {settings.root} is not a directory; make it, or name another."
        raise ConfigurationError(msg)


@hookimpl
def toolstile_sections(settings: VfsConfig) -> list[Section]:
    """Offer the file tools."""
    return [VfsToolsSection(config=settings)]


@hookimpl
def toolstile_resources(settings: VfsConfig) -> list[Binding[Any]]:
    """Offer the workspace to the tools of other plugins, also in prompts without the section."""
    return [workspace_binding(settings)]


@hookimpl
def toolstile_commands() -> list[Command]:
    """Let commands that dispatch calls work on a directory."""
    return cli.commands(Command)

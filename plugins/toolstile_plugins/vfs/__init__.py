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
    Filesystem,
    ResourceResolver,
    Section,
    effect_free,
    hookimpl,
)
from toolstile_hookspecs.support.late_names import late_names
from toolstile_plugins.vfs import cli
from toolstile_plugins.vfs.settings import Mount, VfsConfig

if TYPE_CHECKING:
    from toolstile_plugins.vfs.backends.disk.store import DiskStore
    from toolstile_plugins.vfs.section import VfsToolsSection, open_workspace
    from toolstile_plugins.vfs.workspace import VirtualFilesystem

__all__ = [
    "DiskStore",
    "Mount",
    "VfsConfig",
    "VfsToolsSection",
    "VirtualFilesystem",
    "open_workspace",
]

toolstile_on_request = dict.fromkeys(
    (
        *("list_directory", "read_file", "write_file", "edit_file", "delete_file"),
        *("copy_file", "move_file", "glob_files", "grep_files"),
    ),
    "the host has no workspace; add --workspace DIR, or [plugins.vfs] to the configuration",
)

__getattr__ = late_names(
    __name__,
    {
        "backends.disk.store": "DiskStore",
        "section": "VfsToolsSection open_workspace",
        "workspace": "VirtualFilesystem",
    },
)


@hookimpl
def toolstile_settings() -> type[BaseModel]:
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
    from toolstile_plugins.vfs.section import VfsToolsSection

    return [VfsToolsSection(config=settings)]


@hookimpl
def toolstile_resources(settings: VfsConfig) -> list[Binding[Any]]:
    """Offer the workspace to the tools of other plugins, also in prompts without the section."""

    def workspace(resources: ResourceResolver) -> Filesystem:  # noqa: ARG001 - needs no other
        from toolstile_plugins.vfs.section import open_workspace

        return open_workspace(settings)

    return [Binding[Filesystem](Filesystem, workspace)]  # type: ignore[type-abstract]


@hookimpl
def toolstile_commands() -> list[Command]:
    """Let commands that dispatch calls work on a directory."""
    return cli.commands(Command)

"""The workspace: tools for files, in memory or in a directory, where they are asked for.

Settings, `[plugins.vfs]`: see `VfsConfig`. `toolstile run --workspace DIR` and
`toolstile call --workspace DIR` work on a directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
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
from toolstile_plugins.vfs.git_repositories import diagnose_repository
from toolstile_plugins.vfs.paths import RESERVED
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
    "there is no workspace; add --workspace DIR, or [plugins.vfs] to the configuration"
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
    if settings.root is None:
        yield Diagnostic.ok("workspace", "In memory, empty at first.")
    else:
        yield _finding_of_root(settings.root, readonly=settings.readonly)
        if (finding := diagnose_repository(settings.root)) is not None:
            yield finding
    yield Diagnostic.ok("protected paths", _protection(settings))
    for mount in settings.mounts:
        if "://" not in mount.source and not Path(mount.source).expanduser().exists():
            yield Diagnostic.error(
                f"mount {mount.target}",
                f"{mount.source} is not there.",
                "Fix the source in plugins.vfs.mounts.",
            )


def _protection(settings: VfsConfig) -> str:
    from toolstile_plugins.vfs.protected_globs import BY_CONTENT, PROTECTED

    added, allowed = ", ".join(settings.protected), ", ".join(settings.unprotected)
    globs = " ".join(" ".join(PROTECTED.values()).split())
    return (
        f"A person is asked before a call changes {globs}, {BY_CONTENT}"
        f"{added and f'; also {added}'}{allowed and f'; but not {allowed}'}. To change "
        "the list, set protected and unprotected in [plugins.vfs]."
    )


def _finding_of_root(root: Path, *, readonly: bool) -> Diagnostic:
    subject = f"workspace {root}"
    if not root.is_dir():
        return Diagnostic.error(
            subject, "There is no such directory.", "Make it, or fix plugins.vfs.root."
        )
    if not os.access(root, os.R_OK | os.X_OK | (0 if readonly else os.W_OK)):
        return Diagnostic.error(
            subject,
            f"It cannot be {'read' if readonly else 'read and written'}.",
            "Give this user the right to, or configure another directory.",
        )
    from toolstile_plugins.vfs.backends.disk.operations import (
        STATES,  # only `toolstile doctor` asks
    )

    pending = [path for state in STATES for path in root.glob(f"{RESERVED}/*/{state}")]
    if pending:
        return Diagnostic.warning(
            subject,
            f"{len(pending)} commits wait to be finished, or are being made by a running host.",
            f"Where no host works here: call any tool in it, which finishes them; if it cannot, "
            f"it says what is in the way. They are in {RESERVED}.",
        )
    return Diagnostic.ok(subject, "It is there, and no commit waits to be finished.")


@hookimpl
@effect_free
def toolstile_lifespan(settings: VfsConfig) -> None:
    """Refuse a directory that is not there when the host is opened, not when a call needs it."""
    # Before Python 3.14, `Path.is_dir` raises where it cannot look.
    if settings.root is not None and not os.path.isdir(settings.root):  # noqa: PTH112
        msg = f"plugins.vfs.root: there is no directory {settings.root}; make it, or name another."
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

"""The sandbox: a tool that runs commands, whose changes are kept as a whole or not at all.

Settings, `[plugins.sandbox]`: see `SandboxSettings`. Commands work on the workspace of
`[plugins.vfs]`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from pydantic import BaseModel

from toolstile_hookspecs import Diagnostic, Section, hookimpl
from toolstile_plugins.sandbox.backend import (
    Backend,
    Running,
    SandboxUnavailable,
    backend_of,
)
from toolstile_plugins.sandbox.command import Command, Limits
from toolstile_plugins.sandbox.layout import Layout
from toolstile_plugins.sandbox.result import CommandResult, ShellParams
from toolstile_plugins.sandbox.settings import SandboxSettings
from toolstile_plugins.sandbox.tool import ShellSection, clear_up

__all__ = [
    "Backend",
    "Command",
    "CommandResult",
    "Layout",
    "Limits",
    "Running",
    "SandboxSettings",
    "SandboxUnavailable",
    "ShellParams",
    "ShellSection",
]

toolstile_on_request = "for commands, add [plugins.sandbox] to the configuration"


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return SandboxSettings


@hookimpl
def toolstile_diagnose(settings: SandboxSettings) -> Iterator[Diagnostic]:
    """Find out whether commands can run here, and what contains them."""
    return backend_of(settings).findings()


@hookimpl
@contextmanager
def toolstile_lifespan(settings: SandboxSettings) -> Generator[None]:
    """Remove what a host has left that was killed."""
    clear_up(settings)
    yield


@hookimpl
def toolstile_sections(settings: SandboxSettings) -> list[Section]:
    """Offer the tool."""
    return [ShellSection(config=settings)]

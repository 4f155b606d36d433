"""The stateful backends of the Berkeley Function Calling Leaderboard as Toolyard tools."""

from __future__ import annotations

from typing import Any

from toolyard_bfcl.backends import Backends
from toolyard_bfcl.settings import Settings
from toolyard_bfcl.store import BackendStore
from toolyard_bfcl.tools import tools_of
from toolyard_hookspecs import Binding, MarkdownSection, hookimpl

__all__ = [
    "Backends",
    "Settings",
    "toolyard_resources",
    "toolyard_sections",
    "toolyard_settings",
]


@hookimpl
def toolyard_settings() -> type[Settings]:
    """Declare what the table `[plugins.bfcl]` may hold."""
    return Settings


@hookimpl
def toolyard_sections(settings: Settings) -> list[MarkdownSection]:
    """Offer one section for each suite."""
    return [
        MarkdownSection(key=f"bfcl-{suite.lower()}", title=suite, tools=tools_of(suite))
        for suite in settings.suites
    ]


@hookimpl
def toolyard_resources(settings: Settings) -> list[Binding[Any]]:
    """Offer the backends, one set of them for each session."""
    return [
        Binding(
            Backends,
            lambda resources: BackendStore(settings.suites, settings.start, settings.final_state),
        )
    ]

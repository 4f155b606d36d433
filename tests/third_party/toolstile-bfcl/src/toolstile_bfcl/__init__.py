"""The stateful backends of the Berkeley Function Calling Leaderboard as Toolstile tools."""

from __future__ import annotations

from typing import Any

from toolstile_bfcl.backends import Backends
from toolstile_bfcl.settings import Settings
from toolstile_bfcl.store import BackendStore
from toolstile_bfcl.tools import tools_of
from toolstile_hookspecs import Binding, MarkdownSection, hookimpl

__all__ = [
    "Backends",
    "Settings",
    "toolstile_resources",
    "toolstile_sections",
    "toolstile_settings",
]


@hookimpl
def toolstile_settings() -> type[Settings]:
    """Declare what the table `[plugins.bfcl]` may hold."""
    return Settings


@hookimpl
def toolstile_sections(settings: Settings) -> list[MarkdownSection]:
    """Offer one section for each suite."""
    return [
        MarkdownSection(key=f"bfcl-{suite.lower()}", title=suite, tools=tools_of(suite))
        for suite in settings.suites
    ]


@hookimpl
def toolstile_resources(settings: Settings) -> list[Binding[Any]]:
    """Offer the backends, one set of them for each session."""
    return [
        Binding(
            Backends,
            lambda resources: BackendStore(settings.suites, settings.start, settings.final_state),
        )
    ]

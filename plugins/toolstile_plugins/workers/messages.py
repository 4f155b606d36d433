"""Messages about calls that no worker runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from toolstile_hookspecs import CallRefused, StateError, Tool


def other_version(tool: str, version: str | None, known: Collection[str | None]) -> str:
    """Say that no worker has the version of a tool that a host has."""
    theirs = ", ".join(sorted(name or "without a version" for name in known))
    return (
        f"{tool} was not run: it is {version or 'without a version'} here, and its workers have "
        f"{theirs}. Start workers with the same code, then retry."
    )


def too_late(tool: str, known: Collection[str]) -> str:
    """Say that no worker began a call in time, given the tools that workers have."""
    if tool in known:
        return f"{tool} was not run: no worker had room for it in time. Retry later."
    return (
        f"{tool} was not run: no worker that runs here has it. Start one with "
        "`toolstile worker --tools MODULE`, then retry."
    )


def not_submitted(tool: Tool[Any, Any], error: StateError) -> CallRefused:
    """Say why a call could not be submitted, and what to do."""
    return CallRefused(f"{tool.name} could not be submitted: {error}")

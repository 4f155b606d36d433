"""Outcomes of calls: records that stay for a week, and messages where no worker ran a call."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from itertools import chain, repeat
from typing import Any, Final, TypeVar

from toolstile_hookspecs import CallRefused, StateError, Tool

T = TypeVar("T")

KEPT: Final = 7 * 24 * 3600.0
"""Seconds for which an outcome is kept, for hosts that ask late."""
LONGEST_PAUSE: Final = 15.0
"""The most seconds between attempts to record an outcome."""
_logger = logging.getLogger("toolstile.workers")


def until_recorded(record: Callable[[], T]) -> T:
    """Record something as soon as it can be: a handler has run, and only this tells of it.

    Args:
        record: Records it, and raises `StateError` where it cannot.

    Returns:
        What `record` returns.
    """
    for pause in chain((0.2, 1.0, 3.0), repeat(LONGEST_PAUSE)):
        try:
            return record()
        except StateError as error:
            _logger.warning("An outcome cannot be recorded yet: %s", error)
            time.sleep(pause)
    raise AssertionError


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

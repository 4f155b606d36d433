"""Outcomes of calls: records that stay for a week, and messages where no worker ran a call."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from itertools import chain, repeat
from typing import Any, Final, TypeVar

from toolstile_hookspecs import CallRefused, StateError, Tool
from toolstile_hookspecs.services.dispatcher import DispatchOutcome, DispatchState
from toolstile_hookspecs.support.text import for_model

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


def other_version(tool: str, version: str | None, known: Collection[str | None]) -> DispatchOutcome:
    """Say that no worker has the version of a tool that a host has."""
    theirs = ", ".join(sorted(name or "without a version" for name in known))
    return DispatchOutcome(
        DispatchState.NOT_RUN,
        f"{tool} was not run: it is {version or 'without a version'} here, and its workers have "
        f"{theirs}. This requires human intervention.",
        for_operator="Start workers with the same code as the host: `toolstile worker`.",
    )


def too_late(tool: str, workers: Sequence[Collection[str]]) -> DispatchOutcome:
    """Say that no worker took a call in time, given the tools of the workers that are there."""
    having = sum(tool in tools for tools in workers)
    there = (
        f"workers for it: {having}, all busy" if having else f"workers: {len(workers)}, none for it"
    )
    advice = "Retry later." if having else "This requires human intervention."
    told = "; ".join(", ".join(sorted(tools)) for tools in workers) or "nothing"
    return DispatchOutcome(
        DispatchState.NOT_RUN,
        f"{tool} was not run: no worker took it in time ({there}). {advice}",
        for_operator=f"The workers that are there run: {told}. Start one for {tool} with "
        "`toolstile worker --tools MODULE --concurrency N`, or raise plugins.workers.patience.",
    )


def not_submitted(tool: Tool[Any, Any], error: StateError) -> CallRefused:
    """Say why a call could not be submitted, and what to do."""
    told = f"{tool.name} could not be submitted: {for_model(str(error))}"
    return CallRefused(told, for_operator=str(error))

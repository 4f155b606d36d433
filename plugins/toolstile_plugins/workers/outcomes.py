"""Outcomes of calls: how they are recorded, and messages about calls that did not run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from itertools import chain, repeat
from typing import Any, Final, TypeVar

from toolstile_hookspecs import CallRefused, StateError, Tool
from toolstile_hookspecs.services.dispatcher import DispatchOutcome, DispatchState, StartMark
from toolstile_hookspecs.support.text import for_model

T = TypeVar("T")

KEPT: Final = 7 * 24 * 3600.0
"""Seconds until an outcome is deleted, so that hosts can find outcomes later."""
LONGEST_PAUSE: Final = 15.0
"""The maximum of seconds between attempts to record an outcome."""
_logger = logging.getLogger("toolstile.workers")


def mark_of(token: str, outcome: str | None) -> StartMark:
    """Return a mark from the columns of its row."""
    return StartMark(token, None if outcome is None else DispatchOutcome.from_json(outcome))


def until_recorded(record: Callable[[], T]) -> T:
    """Call `record` until it raises no `StateError`, and return its result."""
    # Without a limit, because a lost outcome of a handler that ran is unknown for ever.
    for pause in chain((0.2, 1.0, 3.0), repeat(LONGEST_PAUSE)):
        try:
            return record()
        except StateError as error:
            _logger.warning("An outcome cannot be recorded yet: %s", error)
            time.sleep(pause)
    raise AssertionError


def other_version(tool: str, version: str | None, known: Collection[str | None]) -> DispatchOutcome:
    """Return the outcome of a call if no worker has the host's version of the tool."""
    theirs = ", ".join(sorted(name or "without a version" for name in known))
    return DispatchOutcome(
        DispatchState.NOT_RUN,
        f"{tool} was not run: it is {version or 'without a version'} here, and its workers have "
        f"{theirs}. This requires human intervention.",
        for_operator="Start workers with the same code as the host: `toolstile worker`.",
    )


def too_late(tool: str, workers: Sequence[Collection[str]]) -> DispatchOutcome:
    """Return the outcome of a call that no worker took in time; `workers` are their tools."""
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
    """Return the exception for a call that could not be submitted."""
    told = f"{tool.name} could not be submitted: {for_model(str(error))}"
    return CallRefused(told, for_operator=str(error))

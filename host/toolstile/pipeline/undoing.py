"""Putting back what a call changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from toolstile.pipeline.asking import settle_surely, waits
from toolstile.pipeline.call_run import CallRun
from toolstile.pipeline.masking import log_failure
from toolstile.pipeline.plugin_faults import check_participant
from toolstile.pipeline.steps import Staged
from toolstile.plugins.implementations import Implementation

log = logging.getLogger("toolstile.pipeline")

Action = Callable[[], Any]


def undo(run: CallRun, *, participants: bool = True) -> Staged:
    """Put back everything the call changed, in reverse; one failure stops no other.

    Args:
        run: The call.
        participants: Whether that goes for the plugins' participants, too.

    Raises:
        BaseException: What interrupted it, when all is put back.
    """
    run.branch.rollback()
    yield from _each(run, chain(run.scope.undoing(), _of_plugins(run) if participants else ()))


def undo_participants(run: CallRun) -> Staged:
    """Put back what the plugins' participants keep for the call; see `undo`."""
    yield from _each(run, _of_plugins(run))


async def take_part_once_there(run: CallRun, hook: Implementation, coming: Awaitable[Any]) -> None:
    """Have the participant of a hook take part; roll it back where the call is over by then."""
    participant = await coming
    if participant is None:
        return
    check_participant(hook, participant)
    if run.take_over([participant]):
        return
    try:
        rolling_back = participant.rollback()
        if waits(rolling_back):
            # What gave up the hook may be about to cancel this task.
            await asyncio.shield(rolling_back)
    except Exception:  # noqa: BLE001 - logged without secrets
        log_failure(run, log, "Rolling back what plugin %s kept failed.", hook.plugin)


def _of_plugins(run: CallRun) -> Iterator[Action]:
    run.take_no_more()
    # One by one: interrupted between two of them, the rest is put back when it is done again.
    while run.participants:
        yield run.participants.pop().rollback


def _each(run: CallRun, actions: Iterable[Action]) -> Staged:
    interruption: BaseException | None = None
    for action in actions:
        try:
            yield from settle_surely(run, action())
        except Exception:  # noqa: BLE001 - logged without secrets
            log_failure(run, log, "Rolling back %s met a failure; the rest is rolled back.", run)
        except BaseException as error:  # noqa: BLE001 - raised when all is put back
            interruption = error
    if interruption is not None:
        raise interruption

"""Putting back what a call changed."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

from toolyard.pipeline.asking import ENDLESS, settle
from toolyard.pipeline.call_run import CallRun
from toolyard.pipeline.steps import Step

log = logging.getLogger("toolyard.pipeline")

Staged = Generator[Step, Any, Any]


def undo(run: CallRun, *, participants: bool = True) -> Staged:
    """Put back everything the call changed, in reverse; one failure stops no other.

    Args:
        run: The call.
        participants: Whether that goes for the plugins' participants, too.
    """
    run.branch.rollback()
    for each in run.scope.undoing():
        yield from _attempt(run, each)
    if not participants:
        return
    for participant in reversed(run.participants):
        yield from _attempt(run, participant.rollback)
    run.participants = []


def _attempt(run: CallRun, action: Any) -> Staged:
    try:
        yield from settle(run, action(), ENDLESS)
    except BaseException:
        log.exception("Rolling back %s met a failure; the rest is rolled back.", run)

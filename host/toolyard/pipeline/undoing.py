"""Putting back what a call changed."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

from toolyard.pipeline.asking import settle_surely
from toolyard.pipeline.call_run import CallRun
from toolyard.pipeline.steps import Step

log = logging.getLogger("toolyard.pipeline")

Staged = Generator[Step, Any, Any]


def undo(run: CallRun, *, participants: bool = True) -> Staged:
    """Put back everything the call changed, in reverse; one failure stops no other.

    Args:
        run: The call.
        participants: Whether that goes for the plugins' participants, too.

    Raises:
        BaseException: What interrupted it, when all is put back.
    """
    run.branch.rollback()
    actions = [*run.scope.undoing()]
    if participants:
        actions += [each.rollback for each in reversed(run.participants)]
        run.participants = []
    interruption: BaseException | None = None
    for action in actions:
        try:
            yield from settle_surely(run, action())
        except Exception:
            log.exception("Rolling back %s met a failure; the rest is rolled back.", run)
        except BaseException as error:  # noqa: BLE001 - raised when all is put back
            interruption = error
    if interruption is not None:
        raise interruption

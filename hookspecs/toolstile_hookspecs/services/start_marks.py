"""Marks of a start: what lets the handler of a submitted call run once, whatever dies.

Immediately before the handler an attempt makes a mark under the call's key, with a token of its
own, and only the attempt that has made it runs. A mark belongs to no process: an attempt that is
repeated makes a new token.
`toolstile_hookspecs.testing.StartMarksContract` shows whether a store of marks keeps to this.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol
from uuid import uuid4

from toolstile_hookspecs.services.dispatcher import (
    CallRunner,
    DispatchedCall,
    DispatchOutcome,
    DispatchState,
)

__all__ = ["WORKER_LOST", "StartMark", "StartMarks", "outcome_of", "run_once", "withdraw"]

WORKER_LOST: Final = "Its worker was lost while it ran."
"""The reason of an unknown outcome that nobody has recorded."""
WITHDRAWN: Final = DispatchOutcome(DispatchState.NOT_RUN, "It was withdrawn before it began.")


class StartMark(NamedTuple):
    """The mark of a start.

    Args:
        token: The token of the attempt that has made it.
        outcome: The outcome of that attempt, None while nobody knows.
    """

    token: str
    outcome: DispatchOutcome | None = None


class StartMarks(Protocol):
    """Keeps the marks of calls, for all hosts and workers; each method is atomic and durable.

    Every method raises `StateError`, which says what to do, when it cannot be done.
    """

    def begin(
        self,
        key: str,
        token: str,
        *,
        over: str | None = None,
        outcome: DispatchOutcome | None = None,
    ) -> StartMark | None:
        """Make the mark of a key, or replace the one of a token.

        Args:
            key: The key of the call.
            token: The attempt's own.
            over: The token whose mark is replaced, as long as its outcome is not known.
            outcome: What the mark says from the beginning, for a call that does not run.

        Returns:
            None when the mark is that of `token`, else the mark that stands in its way.
        """
        ...

    def finish(self, key: str, token: str, outcome: DispatchOutcome) -> bool:
        """Record what an attempt came to; returns whether the mark was still its own."""
        ...

    def get(self, key: str) -> StartMark | None:
        """Return the mark of a key, None for nothing."""
        ...


def run_once(marks: StartMarks, call: DispatchedCall, runner: CallRunner) -> DispatchOutcome:
    """Attempt a call: run its handler unless another attempt has begun it.

    Called by the worker that has the call. Where an attempt has begun, the recorded outcome
    answers, else `unknown`; a repeatable call replaces the mark and runs.

    Args:
        marks: The marks.
        call: The call.
        runner: Runs the handler.

    Returns:
        The outcome of the call, which is recorded.
    """
    token = uuid4().hex
    standing = marks.get(call.key)

    def begin() -> bool:
        nonlocal standing
        over = standing.token if standing is not None and call.repeatable else None
        standing = marks.begin(call.key, token, over=over)
        return standing is None

    if standing is not None and not _may_run(standing, call):
        return outcome_of(standing)
    outcome = runner.run(call, begin)
    if standing is not None and standing.token != token:
        # Another attempt was faster.
        return outcome_of(standing)
    if not marks.finish(call.key, token, outcome):
        standing = marks.begin(call.key, token, outcome=outcome)
    return outcome if standing is None else outcome_of(standing)


def withdraw(marks: StartMarks, key: str) -> StartMark | None:
    """Keep a call from beginning; return the mark of the attempt that has begun, None for none."""
    return marks.begin(key, uuid4().hex, outcome=WITHDRAWN)


def outcome_of(mark: StartMark) -> DispatchOutcome:
    """Return the outcome that a mark tells where its attempt does not run any more."""
    return mark.outcome or DispatchOutcome(DispatchState.UNKNOWN, WORKER_LOST)


def _may_run(standing: StartMark, call: DispatchedCall) -> bool:
    return call.repeatable and outcome_of(standing).state is DispatchState.UNKNOWN

"""Dispatchers: they have calls run on workers, in other processes, and tell what became of them.

A dispatcher is shared by the hosts that submit calls and the workers that run them. The mark of a
start says that a call has begun; see `StartMarks`. A call is answered whatever dies: with its
result, its failure, `unknown`, or the news that it did not run.
`toolstile_hookspecs.testing.DispatcherContract` shows whether a dispatcher keeps to this.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from threading import Event
from typing import Final, NamedTuple, Protocol, runtime_checkable
from uuid import uuid4

from toolstile_hookspecs.services.replay import HandlerState

__all__ = ["CallRunner", "DispatchOutcome", "DispatchState", "DispatchedCall", "Dispatcher"]


class DispatchState(StrEnum):
    """The end of a submitted call."""

    RESULT = "result"
    """Its handler has returned a success."""
    FAILURE = "failure"
    """Its handler has returned a failure, or raised."""
    UNKNOWN = "unknown"
    """Its handler began, and nobody knows what it has done."""
    NOT_RUN = "not_run"
    """Its handler has not begun and never will."""


class DispatchOutcome(NamedTuple):
    """The outcome of a submitted call.

    Args:
        state: What became of it.
        text: The message of the result; else what went wrong, and what to do.
        value: The value of the result as JSON, None where there is none.
        excluded: Whether the value is kept from the model.
        error: The name of the exception that the handler raised, None for a failure it returned.
        sent: Whether that exception shows that a request may have been sent; see `HandlerState`.
        for_operator: Advice for the event and the log, which no model reads.
    """

    state: DispatchState
    text: str = ""
    value: str | None = None
    excluded: bool = False
    error: str | None = None
    sent: bool | None = None
    for_operator: str = ""

    @property
    def handler_state(self) -> HandlerState:
        """The end of the handler of a `FAILURE`."""
        return HandlerState.after(False if self.error is None else self.sent)

    def to_json(self) -> str:
        """Return it as JSON, for `from_json`."""
        return json.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> DispatchOutcome:
        """Return the outcome that `to_json` wrote; one of another form, as of later, is unknown.

        Example:
            >>> outcome = DispatchOutcome(DispatchState.FAILURE, "No such order.")
            >>> DispatchOutcome.from_json(outcome.to_json()) == outcome
            True
        """
        try:
            state, *rest = json.loads(text)
            return cls(DispatchState(state), *rest)
        except (ValueError, TypeError):
            told = "Its outcome has a form that is not known here; use one version everywhere."
            return cls(DispatchState.UNKNOWN, told)


class DispatchedCall(NamedTuple):
    """A call to run on a worker.

    Args:
        key: The id of its effect, which stands for one run of the handler.
        tool: The tool's name.
        version: The tool's version, which a worker must have, too.
        params: The params as JSON.
        repeatable: Whether it may run again where nobody knows whether it has run.
        begin_by: When its handler must have begun; aware. Later it is `not_run`.
        deadline: When its handler is ended; aware.
        priority: Calls of a higher one begin first.
        traceparent: The W3C trace context of the caller's span.
        connection: How its handler reaches the host, where it needs that; handed on as it is.
    """

    key: str
    tool: str
    version: str | None
    params: str
    repeatable: bool = False
    begin_by: datetime | None = None
    deadline: datetime | None = None
    priority: int = 0
    traceparent: str | None = None
    connection: str | None = None


class CallRunner(Protocol):
    """Runs the handlers of a worker, for `Dispatcher.serve`."""

    @property
    def tools(self) -> Mapping[str, str | None]:
        """The versions of its tools, by name."""
        ...

    def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:
        """Run the handler of a call and wait for it.

        Args:
            call: The call.
            begin: Tells immediately before the handler whether it may run; called once.

        Returns:
            The outcome; `unknown` where the handler was ended, `not_run` where it did not begin.
        """
        ...

    def end(self, key: str, reason: str) -> None:
        """End the handler of a call where it runs; from any thread, without waiting."""


@runtime_checkable
class Dispatcher(Protocol):
    """Has calls run on workers.

    Methods other than `submit` may wait for a file or a database: keep them off event loops. Each
    raises `StateError`, which says what to do, when the dispatcher cannot be reached.
    """

    async def submit(self, call: DispatchedCall) -> DispatchOutcome:
        """Have a call run, and wait for its outcome.

        A key that was submitted before is joined where it runs, and answered where it has ended.
        The call of a worker that dies is taken over: it is run by another where it has not begun
        or is `repeatable`, else `unknown`. Versions that no worker has are refused as `not_run`.
        A caller that waits no longer leaves the call as it is.
        """
        ...

    def find(self, key: str) -> DispatchOutcome | None:
        """Return the outcome of a call that was submitted, for those who ask late.

        Returns:
            Its outcome, `unknown` where it began and its worker was lost; None where it was never
            submitted, and as long as its outcome may come.
        """
        ...

    def withdraw(self, key: str) -> DispatchOutcome | None:
        """Keep a call from beginning, whether it was submitted or may still be.

        Returns:
            Its outcome, `not_run` where it had not begun; None while its handler runs.
        """
        ...

    def cancel(self, key: str) -> DispatchOutcome | None:
        """Keep a call from beginning, and have its handler ended where it runs; see `withdraw`."""
        ...

    def heartbeat(self, key: str) -> float | None:
        """Return how long ago, in seconds, the worker of a call was alive; None without one."""
        ...

    def serve(self, runner: CallRunner, *, concurrency: int, stop: Event) -> None:
        """Run calls in this process until `stop` is set and those that run have ended.

        Args:
            runner: Runs the handlers.
            concurrency: How many calls run at once.
            stop: Set, no more calls are taken.
        """

    def close(self) -> None:
        """Give back what it holds; calls stay as they are."""


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


@runtime_checkable
class PortableProviders(Protocol):
    """The resources of a call, which tell how another process makes its own."""

    def portable_provider(self, kind: type[object]) -> str | None:
        """Return the place of the provider of a portable resource, as `module:name`.

        None for one that no import finds: then the resource itself crosses, as data.
        """
        ...

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
from typing import NamedTuple, Protocol, runtime_checkable

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

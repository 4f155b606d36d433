"""Dispatchers: they send calls to workers, in other processes, and return the outcomes.

Hosts that submit calls and workers that run them share a dispatcher. Even if a process dies, a
call ends with its result, its failure, `unknown` or `not_run`.

Start marks let a handler run once. Just before the handler, an attempt makes a mark under the
call's key with a new token, and only the attempt that has made it runs. A mark belongs to no
process: a repeated attempt makes a new token.

`DispatcherContract` and `StartMarksContract` of `toolstile_hookspecs.testing` test both.
"""

# pyright: reportReturnType=false

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from threading import Event
from typing import Final, NamedTuple, Protocol, runtime_checkable
from uuid import uuid4

from toolstile_hookspecs.services.replay import HandlerState

WORKER_LOST: Final = "Its worker was lost while it ran."
"""The reason of an unknown outcome without a record."""


class DispatchState(StrEnum):
    """The end of a submitted call."""

    RESULT = "result"
    """The handler has returned a success."""
    FAILURE = "failure"
    """The handler has returned a failure, or raised."""
    UNKNOWN = "unknown"
    """The handler began, and its effect is unknown."""
    NOT_RUN = "not_run"
    """The handler has not begun and never will."""


class DispatchOutcome(NamedTuple):
    """The outcome of a submitted call.

    Args:
        state: The end of the call.
        text: The message of the result; else the fault and the remedy.
        value: The value of the result as JSON, None without a value.
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
        """Return the outcome as JSON, for `from_json`."""
        return json.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> DispatchOutcome:
        """Return the outcome that `to_json` wrote, or `unknown` for the form of another version.

        Example:
            >>> outcome = DispatchOutcome(DispatchState.FAILURE, "No such order.")
            >>> DispatchOutcome.from_json(outcome.to_json()) == outcome
            True
        """
        try:
            state, *rest = json.loads(text)
            return cls(DispatchState(state), *rest)
        except (ValueError, TypeError):
            reason = "Its outcome has a form that is not known here; use one version everywhere."
            return cls(DispatchState.UNKNOWN, reason)


class DispatchedCall(NamedTuple):
    """A call to run on a worker.

    Args:
        key: The id of the effect, the same for each attempt at one call of the handler.
        tool: The tool's name.
        version: The tool's version, which a worker must have, too.
        params: The params as JSON.
        repeatable: Whether the call may run again if it is unknown whether it has run.
        begin_by: The latest time for the handler to begin, aware; later the call is `not_run`.
        deadline: The time at which the handler is ended; aware.
        priority: Calls of a higher priority begin first.
        traceparent: The W3C trace context of the caller's span.
        connection: How the handler reaches the host, passed on unchanged.
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
        """The versions of the tools, by name."""

    def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:
        """Run the handler of a call and wait for it.

        Args:
            call: The call.
            begin: Called once, just before the handler; tells whether it may run.

        Returns:
            The outcome; `unknown` if the handler was ended, `not_run` if it did not begin.
        """

    def end(self, key: str, reason: str) -> None:
        """End the handler of a call if it runs; from any thread, without waiting."""


@runtime_checkable
class Dispatcher(Protocol):
    """Sends calls to workers.

    Methods other than `submit` may wait for a file or a database: keep them off event loops. Each
    raises `StateError` with a remedy if the dispatcher cannot be reached.
    """

    async def submit(self, call: DispatchedCall) -> DispatchOutcome:
        """Submit a call, and wait for its outcome.

        If the key was submitted before, wait for that call, or return its outcome. If a worker
        dies, another one runs a call that has not begun or is `repeatable`; other calls are
        `unknown`. A version without a worker is refused as `not_run`. If the caller stops waiting,
        the call continues.
        """

    def find(self, key: str) -> DispatchOutcome | None:
        """Return the outcome of a submitted call, for a caller that asks late.

        Returns:
            The outcome, `unknown` if the call began and its worker was lost; None if the call was
            never submitted, or its outcome may still come.
        """

    def withdraw(self, key: str) -> DispatchOutcome | None:
        """Keep a call from beginning, submitted already or later.

        Returns:
            The outcome, `not_run` if the call had not begun; None while its handler runs.
        """

    def cancel(self, key: str) -> DispatchOutcome | None:
        """Keep a call from beginning, and end its handler if it runs; see `withdraw`."""

    def heartbeat(self, key: str) -> float | None:
        """Return the seconds since the last sign of life of a call's worker; None without one."""

    def serve(self, runner: CallRunner, *, concurrency: int, stop: Event) -> None:
        """Run calls in this process until `stop` is set and the running calls have ended.

        Args:
            runner: Runs the handlers.
            concurrency: The maximum number of calls at once.
            stop: Once set, no more calls begin.
        """

    def close(self) -> None:
        """Release connections and files; calls stay."""


WITHDRAWN: Final = DispatchOutcome(DispatchState.NOT_RUN, "It was withdrawn before it began.")


class StartMark(NamedTuple):
    """The mark of a start.

    Args:
        token: The token of the attempt that has made the mark.
        outcome: The outcome of the attempt, None while unknown.
    """

    token: str
    outcome: DispatchOutcome | None = None


class StartMarks(Protocol):
    """Keeps the marks of calls, for all hosts and workers; each method is atomic and durable.

    Every method raises `StateError` with a remedy if the store cannot be read or written.
    """

    def begin(
        self,
        key: str,
        token: str,
        *,
        over: str | None = None,
        outcome: DispatchOutcome | None = None,
    ) -> StartMark | None:
        """Make the mark of a key, or replace the mark of a token.

        Args:
            key: The key of the call.
            token: The token of this attempt.
            over: The token whose mark may be replaced while its outcome is unknown.
            outcome: The outcome in the new mark, for a call that does not run.

        Returns:
            None if the mark has `token` now, else the mark that prevents it.
        """

    def finish(self, key: str, token: str, outcome: DispatchOutcome) -> bool:
        """Record the outcome of an attempt; return whether the mark still had its token."""

    def get(self, key: str) -> StartMark | None:
        """Return the mark of a key, or None."""


def run_once(marks: StartMarks, call: DispatchedCall, runner: CallRunner) -> DispatchOutcome:
    """Attempt a call: run its handler unless another attempt has begun, and return the outcome.

    The worker of the call uses it. If an attempt has begun, the outcome is the recorded one, else
    `unknown`; a repeatable call replaces the mark and runs.
    """
    token = uuid4().hex
    standing = marks.get(call.key)

    def begin() -> bool:
        nonlocal standing
        over = standing.token if standing is not None and call.repeatable else None
        standing = marks.begin(call.key, token, over=over)
        return standing is None

    if standing is not None:
        earlier = outcome_of(standing)
        if not call.repeatable or earlier.state is not DispatchState.UNKNOWN:
            return earlier
    outcome = runner.run(call, begin)
    if standing is not None and standing.token != token:
        # Another attempt was faster.
        return outcome_of(standing)
    if not marks.finish(call.key, token, outcome):
        standing = marks.begin(call.key, token, outcome=outcome)
    return outcome if standing is None else outcome_of(standing)


def withdraw(marks: StartMarks, key: str) -> StartMark | None:
    """Keep a call from beginning; return the mark of an attempt that has begun, or None."""
    return marks.begin(key, uuid4().hex, outcome=WITHDRAWN)


def outcome_of(mark: StartMark) -> DispatchOutcome:
    """Return the outcome of a mark whose attempt does not run any more."""
    return mark.outcome or DispatchOutcome(DispatchState.UNKNOWN, WORKER_LOST)


@runtime_checkable
class PortableProviders(Protocol):
    """The resources of a call, with the providers that another process needs to make its own."""

    def portable_provider(self, kind: type[object]) -> str | None:
        """Return the place of the provider of a portable resource, as `module:name`.

        None for a provider that no import finds: the resource itself then crosses, as data.
        """

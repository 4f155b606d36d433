"""Effects: the steps that the loop asks for, and their two drivers, on a thread or an event loop.

The loop is a generator. It yields effects, and is sent their results.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from toolstile_hookspecs import Cancellation, ConfigurationError, Deadline
from toolstile_hookspecs.agents.messages import Turn, Usage
from toolstile_hookspecs.agents.provider import (
    Delta,
    Listener,
    ModelRequest,
    ProviderAdapter,
    ProviderError,
    ThoughtDelta,
    ThrottleError,
)
from toolstile_hookspecs.support.callables import is_async_callable
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.agent.result import RunCancelled

if TYPE_CHECKING:
    from toolstile_plugins.agent.spans import RunSpans

log = logging.getLogger("toolstile.agent")

T = TypeVar("T")


class Effect(Protocol):
    """One step, in two forms."""

    def perform(self) -> Any:
        """Perform the step on the calling thread."""
        ...

    def aperform(self) -> Awaitable[Any]:
        """Perform the step on the event loop."""
        ...


Loop = Generator[Effect, Any, T]
"""A part of the loop: its effects, their results, and the value that the part returns."""


def drive(loop: Loop[T]) -> T:
    """Run a loop to its end on this thread and return its value."""
    try:
        effect = next(loop)
        while True:
            try:
                answer = effect.perform()
            except BaseException as error:  # noqa: BLE001 - the loop decides
                effect = loop.throw(error)
            else:
                effect = loop.send(answer)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def adrive(loop: Loop[T]) -> T:
    """Run a loop to its end on the event loop; see `drive`."""
    try:
        effect = next(loop)
        while True:
            try:
                answer = await effect.aperform()
            except BaseException as error:  # noqa: BLE001 - the loop decides
                effect = loop.throw(error)
            else:
                effect = loop.send(answer)
    except StopIteration as stop:
        value: T = stop.value
        return value


def on_thread(function: Callable[[], T], name: str) -> Future[T]:
    """Call a function on a daemon thread, in a copy of this context; return its future."""
    ended: Future[T] = Future()
    ended.set_running_or_notify_cancel()  # so that no caller can cancel the future

    def work() -> None:
        try:
            ended.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised by result()
            ended.set_exception(error)

    threading.Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()
    return ended


@contextmanager
def cancelled_by(cancellation: Cancellation | None) -> Generator[Future[Any]]:
    """Give a future that raises `RunCancelled` once the run is cancelled."""
    cancelled: Future[Any] = Future()
    cancelled.set_running_or_notify_cancel()  # as above
    if cancellation is None:
        yield cancelled
        return
    forget = cancellation.on_cancel(lambda: cancelled.set_exception(RunCancelled()))
    try:
        yield cancelled
    finally:
        forget()


# --- Calls, and questions to functions of the application


@dataclass(frozen=True, slots=True)
class Carry:
    """Dispatch calls with an executor."""

    perform: Callable[[], Any]
    aperform: Callable[[], Awaitable[Any]]


class NotInTime(Exception):
    """A function exceeded its time. Its thread continues, and its result is dropped."""


@dataclass(frozen=True, slots=True)
class Consult:
    """Call a function of the application or of a plugin, sync or async, with a time limit.

    An async function runs on the loop of the async driver, any other on a thread. The thread of a
    function that exceeds its time continues, and its result is dropped.
    """

    function: Callable[[], Any]
    seconds: float
    cancellation: Cancellation | None = None

    def perform(self) -> Any:
        """Call the function on a thread, and wait."""
        with cancelled_by(self.cancellation) as cancelled:
            ended = on_thread(self._answer, "toolstile-consult")
            if not wait([ended, cancelled], self.seconds, FIRST_COMPLETED).done:
                raise NotInTime
            return (ended if ended.done() else cancelled).result()

    async def aperform(self) -> Any:
        """Call the function, and wait on the event loop."""
        if is_async_callable(self.function):
            work = asyncio.ensure_future(self.function())
        else:
            work = asyncio.wrap_future(on_thread(self._answer, "toolstile-consult"))
        with cancelled_by(self.cancellation) as stopped:
            cancelled = asyncio.wrap_future(stopped)
            both, first = {work, cancelled}, asyncio.FIRST_COMPLETED
            try:
                if not (await asyncio.wait(both, timeout=self.seconds, return_when=first))[0]:
                    raise NotInTime
                return (work if work.done() else cancelled).result()
            finally:
                work.cancel()
                cancelled.cancel()

    def _answer(self) -> Any:
        answer = self.function()
        if not inspect.isawaitable(answer):
            return answer

        async def awaited() -> Any:
            return await answer

        return asyncio.run(awaited())


# --- Requests to the model

FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 8.0
"""Seconds between two tries, unless the provider names a time."""


@dataclass(frozen=True, slots=True)
class Retries:
    """The limits of retries.

    Args:
        attempts: The most tries for one reply.
        total_delay: The most seconds spent between tries.
    """

    attempts: int = 5
    total_delay: float = 30.0


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model, with retries; the result is its `Turn`."""

    adapter: ProviderAdapter
    request: ModelRequest
    retries: Retries
    listen: Listener | None
    deadline: Deadline | None
    cancellation: Cancellation | None
    spans: RunSpans | None
    check: Callable[[], object]
    """Called before each try; raises if a limit of the run is exceeded."""
    used: Callable[[Usage], object]
    """Receives the tokens of each try, also of a try that failed or came too late."""

    def perform(self) -> Turn:
        """Send the request. If the run can be cancelled, send it on a thread.

        No client can close a request that a thread waits for. After a cancellation the thread ends
        with the next piece of a stream, the reply or the timeout; its reply is dropped, and its
        tokens count.
        """
        stopped = threading.Event()
        if self.cancellation is None:
            return self._tried(stopped)
        with cancelled_by(self.cancellation) as cancelled:
            try:
                ended = on_thread(partial(self._tried, stopped), "toolstile-model")
                wait([ended, cancelled], return_when=FIRST_COMPLETED)
                return (ended if ended.done() else cancelled).result()
            finally:
                stopped.set()

    async def aperform(self) -> Turn:
        """Send the request on the event loop."""
        if (stop := self.cancellation) is None:
            return await self._atried()
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(self._atried())

        def cancel() -> None:
            with suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(task.cancel)

        forget = stop.on_cancel(cancel)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if stop.aborted and not (current and current.cancelling()):
                raise RunCancelled from None
            task.cancel()
            raise
        finally:
            forget()

    def _tried(self, stopped: threading.Event) -> Turn:
        heard = _Heard(self.listen, stopped)

        def attempt() -> Turn:
            with self._attempt(heard) as (request, listener, answered):
                return answered(self.adapter.send(request, listener))

        tenacity, policy = self._policy(heard)
        retrying = tenacity.Retrying(sleep=tenacity.sleep_using_event(stopped), **policy)
        turn: Turn = retrying(attempt)
        return turn

    async def _atried(self) -> Turn:
        heard = _Heard(self.listen, threading.Event())

        async def attempt() -> Turn:
            with self._attempt(heard) as (request, listener, answered):
                return answered(await self.adapter.asend(request, listener))

        tenacity, policy = self._policy(heard)
        turn: Turn = await tenacity.AsyncRetrying(**policy)(attempt)
        return turn

    @contextmanager
    def _attempt(
        self, heard: _Heard
    ) -> Generator[tuple[ModelRequest, Listener | None, Callable[[Turn], Turn]]]:
        """Give the request with the time that is left, its listener, and a reader of its turn."""
        if heard.stopped.is_set():
            raise RunCancelled
        self.check()
        request, deadline = self.request, self.deadline
        if deadline is not None:
            left = deadline.remaining()
            given = left if request.timeout is None else min(left, request.timeout)
            request = replace(request, timeout=given)
        untraced = nullcontext((heard.listener, None))
        spans = untraced if self.spans is None else self.spans.chat(request, heard.listener)
        with spans as (timed, note):

            def answered(turn: Turn) -> Turn:
                if turn.usage is None:
                    _note_missing_usage(self.adapter.name, self.adapter.model)
                else:
                    self.used(turn.usage)
                if note is not None:
                    note(turn)
                return turn

            try:
                yield request, timed, answered
            except ProviderError as error:
                if error.usage is not None:
                    self.used(error.usage)
                raise

    def _policy(self, heard: _Heard) -> tuple[Any, dict[str, Any]]:
        """Return the library of retries, and its arguments."""
        try:
            tenacity = import_module("tenacity")  # of an extra
        except ImportError as error:
            raise ConfigurationError(
                f"The agent retries requests with the library tenacity. {extra_remedy('agent')}"
            ) from error
        backoff = tenacity.wait_exponential_jitter(
            multiplier=FIRST_WAIT, max=LONGEST_WAIT, jitter=FIRST_WAIT
        )

        def may_retry(error: BaseException) -> bool:
            # Because a listener has shown it, text that was passed on cannot be taken back.
            return isinstance(error, ProviderError) and error.retry_safe and not heard.anything

        def pause(state: Any) -> float:
            asked: float | None = state.outcome.exception().retry_after
            seconds: float = backoff(state) if asked is None else asked
            return seconds

        def is_over(state: Any) -> bool:
            left = math.inf if self.deadline is None else self.deadline.remaining()
            delay: float = state.idle_for + state.upcoming_sleep
            is_last: bool = state.attempt_number >= self.retries.attempts
            return is_last or state.upcoming_sleep >= left or delay > self.retries.total_delay

        def give_up(state: Any) -> None:
            last: ProviderError = state.outcome.exception()
            tries = state.attempt_number
            throttled = ThrottleError(
                str(last), last.type, retry_after=last.retry_after, attempts=tries
            )
            raise throttled from last

        return tenacity, {
            "retry": tenacity.retry_if_exception(may_retry),
            "wait": pause,
            "stop": is_over,
            "retry_error_callback": give_up,
        }


class _Heard:
    """Passes deltas on until the run is stopped, and knows whether there was any."""

    def __init__(self, listen: Listener | None, stopped: threading.Event) -> None:
        self.anything = False
        self.stopped = stopped
        self._listen = listen
        self.listener: Listener | None = None if listen is None else self._hear

    def _hear(self, delta: Delta) -> None:
        # Thoughts do not prevent a retry: a listener may show them twice.
        self.anything |= not isinstance(delta, ThoughtDelta)
        if self.stopped.is_set():
            raise RunCancelled  # which ends the stream
        if self._listen is not None:
            self._listen(delta)


@cache
def _note_missing_usage(provider: str, model: str) -> None:
    log.warning("%s does not report the tokens of %s: no budget counts them.", provider, model)

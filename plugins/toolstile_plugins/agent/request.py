"""Sending a request to the model: retries, the deadline and cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs import Cancellation, ConfigurationError, Deadline
from toolstile_hookspecs.agents.messages import Turn
from toolstile_hookspecs.agents.provider import (
    Listener,
    ModelRequest,
    ProviderAdapter,
    ProviderError,
)
from toolstile_hookspecs.support.text import extra_remedy

if TYPE_CHECKING:
    from toolstile_plugins.agent.spans import RunSpans

FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 8.0
"""Seconds between two tries, unless the provider says when."""


class RunCancelled(Exception):
    """The run was cancelled while the model was asked."""


@dataclass(frozen=True, slots=True)
class Retries:
    """The bounds of asking once more.

    Args:
        attempts: The most tries for one reply.
        total_delay: The most seconds spent between tries.
    """

    attempts: int = 5
    total_delay: float = 30.0


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model; gives its `Turn`.

    Args:
        adapter: The adapter of the provider.
        request: The request.
        retries: The bounds of asking once more.
        listen: Receives the text as it arrives.
        deadline: The end of the run.
        cancellation: Cancels the run.
        spans: Opens a span for each try, None where nothing is traced.
    """

    adapter: ProviderAdapter
    request: ModelRequest
    retries: Retries
    listen: Listener | None = None
    deadline: Deadline | None = None
    cancellation: Cancellation | None = None
    spans: RunSpans | None = None

    def perform(self) -> Turn:
        """Send the request; where it can be cancelled, on a thread that is left to itself then."""
        stop = self.cancellation
        if stop is None:
            return self._tried(threading.Event())
        stopped, ended = threading.Event(), SimpleQueue[Callable[[], Turn]]()

        def work() -> None:
            try:
                turn = self._tried(stopped)
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                ended.put(_raising(error))
            else:
                ended.put(lambda: turn)

        def cancel() -> None:
            stopped.set()
            ended.put(_raising(RunCancelled()))

        forget = stop.on_cancel(cancel)
        try:
            threading.Thread(
                target=copy_context().run, args=(work,), name="toolstile-model", daemon=True
            ).start()
            return ended.get()()
        finally:
            stopped.set()
            forget()

    async def aperform(self) -> Turn:
        """Send the request on the event loop."""
        import asyncio  # heavy, and only here

        stop = self.cancellation
        if stop is None:
            return await self._atried()
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(self._atried())

        def cancel() -> None:
            with suppress(RuntimeError):  # the loop may have gone
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
        tenacity = _tenacity()
        heard = _Heard(self.listen, stopped)
        retrying = tenacity.Retrying(
            sleep=tenacity.sleep_using_event(stopped), **self._policy(tenacity, heard)
        )

        def attempt() -> Turn:
            if stopped.is_set():
                raise RunCancelled
            request = self._request()
            with self._span(request) as answered:
                return answered(self.adapter.send(request, heard.listener))

        turn: Turn = retrying(attempt)
        return turn

    async def _atried(self) -> Turn:
        tenacity = _tenacity()
        heard = _Heard(self.listen, threading.Event())

        async def attempt() -> Turn:
            request = self._request()
            with self._span(request) as answered:
                return answered(await self.adapter.asend(request, heard.listener))

        turn: Turn = await tenacity.AsyncRetrying(**self._policy(tenacity, heard))(attempt)
        return turn

    def _request(self) -> ModelRequest:
        """Return the request with the time that the deadline leaves."""
        if self.deadline is None:
            return self.request
        self.deadline.check()
        left = self.deadline.remaining()
        given = self.request.timeout
        return replace(self.request, timeout=left if given is None else min(left, given))

    def _span(self, request: ModelRequest) -> AbstractContextManager[Callable[[Turn], Turn]]:
        return _UNTRACED if self.spans is None else self.spans.chat(request)

    def _policy(self, tenacity: Any, heard: _Heard) -> dict[str, Any]:
        """Return when to ask again, when to stop, and how long to wait."""
        backoff = tenacity.wait_exponential_jitter(
            multiplier=FIRST_WAIT, max=LONGEST_WAIT, jitter=FIRST_WAIT
        )

        def may_retry(error: BaseException) -> bool:
            # Text that somebody has read cannot be taken back.
            return isinstance(error, ProviderError) and error.retry_safe and not heard.anything

        def wait(state: Any) -> float:
            asked: float | None = getattr(state.outcome.exception(), "retry_after", None)
            seconds: float = backoff(state)
            return seconds if asked is None else asked

        def give_up(state: Any) -> bool:
            error = state.outcome.exception()
            if isinstance(error, ProviderError):
                error.attempts = state.attempt_number
            delay = state.idle_for + state.upcoming_sleep
            is_late = self.deadline is not None and (
                state.upcoming_sleep >= self.deadline.remaining()
            )
            is_last: bool = state.attempt_number >= self.retries.attempts
            return is_last or is_late or delay > self.retries.total_delay

        return {
            "retry": tenacity.retry_if_exception(may_retry),
            "wait": wait,
            "stop": give_up,
            "reraise": True,
        }


class _Heard:
    """Passes text on until the run has ended, and knows whether there was any."""

    def __init__(self, listen: Listener | None, stopped: threading.Event) -> None:
        self.anything = False
        self._stopped = stopped
        self._listen = listen
        self.listener: Listener | None = None if listen is None else self._hear

    def _hear(self, text: str) -> None:
        self.anything = True
        if self._stopped.is_set():
            raise RunCancelled  # which ends the stream
        if self._listen is not None:
            self._listen(text)


_UNTRACED: Final = nullcontext[Callable[[Turn], Turn]](lambda turn: turn)


def _raising(error: BaseException) -> Callable[[], Turn]:
    def answer() -> Turn:
        raise error

    return answer


def _tenacity() -> Any:
    try:
        import tenacity  # of an extra
    except ImportError as error:
        raise ConfigurationError(
            f"The agent asks a model again by the library tenacity. {extra_remedy('agent')}"
        ) from error
    return tenacity

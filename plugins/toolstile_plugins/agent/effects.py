"""Effects, for which the loop asks, and their two drivers: on a thread, and on an event loop.

The loop is a generator. It yields effects, and is sent what they come to.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from toolstile_hookspecs import Cancellation
from toolstile_hookspecs.support.callables import is_async_callable
from toolstile_plugins.agent.result import RunCancelled

T = TypeVar("T")


def on_thread(function: Callable[[], T], name: str) -> Future[T]:
    """Call a function on a daemon thread, in a copy of this context; return its future."""
    ended: Future[T] = Future()
    ended.set_running_or_notify_cancel()  # so that nobody cancels it

    def work() -> None:
        try:
            ended.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
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


class Effect(Protocol):
    """One thing to do, either way."""

    def perform(self) -> Any:
        """Do it on the calling thread."""
        ...

    def aperform(self) -> Awaitable[Any]:
        """Do it on the event loop."""
        ...


Loop = Generator[Effect, Any, T]
"""A part of the loop: what it asks for, what it is sent for that, what it returns."""


def drive(loop: Loop[T]) -> T:
    """Run a loop to its end on this thread and return what it returns."""
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


@dataclass(frozen=True, slots=True)
class Carry:
    """Carry out calls with an executor.

    Args:
        perform: Does it on the calling thread.
        aperform: Does it on the event loop.
    """

    perform: Callable[[], Any]
    aperform: Callable[[], Awaitable[Any]]


class NotInTime(Exception):
    """A function took longer than it may, and is left to itself."""


@dataclass(frozen=True, slots=True)
class Consult:
    """Call a function of the application's or of a plugin's, sync or async, within a time.

    Args:
        function: The function; an async one runs on the loop of the async driver, all others on
            a thread that is left to itself when its time is over.
        seconds: The time.
        cancellation: Cancels the run, so that nobody waits any longer.
    """

    function: Callable[[], Any]
    seconds: float
    cancellation: Cancellation | None = None

    def perform(self) -> Any:
        """Call it, and wait for its time."""
        with cancelled_by(self.cancellation) as cancelled:
            ended = self._begun()
            if not wait([ended, cancelled], self.seconds, FIRST_COMPLETED).done:
                raise NotInTime
            return (ended if ended.done() else cancelled).result()

    async def aperform(self) -> Any:
        """Call it, and wait on the event loop for its time."""
        import asyncio  # heavy, and only here

        if is_async_callable(self.function):
            work = asyncio.ensure_future(self.function())
        else:
            work = asyncio.wrap_future(self._begun())
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

    def _begun(self) -> Future[Any]:
        return on_thread(self._answer, "toolstile-consult")

    def _answer(self) -> Any:
        answer = self.function()
        if not inspect.isawaitable(answer):
            return answer
        import asyncio  # heavy, and only here

        async def awaited() -> Any:
            return await answer

        return asyncio.run(awaited())

"""Work on a thread of its own, which is left to itself where nobody waits any longer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from toolstile_hookspecs import Cancellation
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

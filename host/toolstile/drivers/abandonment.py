"""The callbacks of `on_abandoned`: they end what a call runs elsewhere once it is given up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from toolstile_hookspecs.support.process import deferred_interrupts

Callback = Callable[[], object]


class Abandonment:
    """The callbacks of one call, which its callable has registered.

    Args:
        log_failure: Logs the exception of a callback that is being handled.

    Attributes:
        is_told: Whether a callback was called.
    """

    __slots__ = ("_callbacks", "_lock", "_log_failure", "is_told")

    def __init__(self, log_failure: Callable[[], None]) -> None:
        self.is_told = False
        self._log_failure = log_failure
        self._callbacks: list[Callback] = []
        # Held while they are called: a callable that ends meanwhile, or takes one back, waits.
        self._lock = threading.RLock()

    def add(self, callback: Callback) -> Callable[[], None]:
        """Call this one, too, when the call is given up; return what takes it back."""
        with self._lock:
            self._callbacks.append(callback)
        return partial(self._forget, callback)

    def tell(self) -> None:
        """Call each callback, the newest first; one that raises is logged."""
        with deferred_interrupts(), self._lock:
            while self._callbacks:
                self.is_told = True
                try:
                    self._callbacks.pop()()
                except BaseException:  # noqa: BLE001 - logged; the others are called, too
                    self._log_failure()

    def end(self) -> None:
        """Forget all callbacks: what they would end has ended by itself."""
        with self._lock:
            self._callbacks.clear()

    def _forget(self, callback: Callback) -> None:
        with self._lock, suppress(ValueError):
            self._callbacks.remove(callback)

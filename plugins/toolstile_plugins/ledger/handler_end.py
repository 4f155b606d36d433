"""The end of a call's handler, also of one that runs on after its call was given up."""

from __future__ import annotations

import threading
from collections.abc import Callable


class HandlerEnd:
    """Calls back once the handler of a call has ended: a resource of that call.

    The host closes it then, and not before. While a handler that was given up runs on, nobody may
    find that its effect has not happened.
    """

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], object]] = []
        self._has_ended = False
        self._lock = threading.Lock()

    def then(self, callback: Callable[[], object]) -> None:
        """Call back at the end; at once where that is over."""
        with self._lock:
            if not self._has_ended:
                self._callbacks.append(callback)
                return
        callback()

    def close(self) -> None:
        """Call back whom the end concerns."""
        with self._lock:
            self._has_ended = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

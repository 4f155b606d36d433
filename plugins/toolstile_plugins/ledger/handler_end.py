"""The end of a call's handler, also of one that runs on after its call was given up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from toolstile_hookspecs import HandlerState, Tool

_ENDED: Final = frozenset({HandlerState.FAILED, HandlerState.RAISED, HandlerState.LOST})


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


def gives_key_back(tool: Tool[Any, Any], state: HandlerState, *, asks_tool: bool) -> bool:
    """Tell whether a handler that failed counts as without effect.

    Args:
        tool: The tool.
        state: The end of its handler.
        asks_tool: Whether something can be asked for the effect.
    """
    config = tool.idempotency
    if state not in _ENDED or config is None:
        return False
    if config.on_error is not None:
        return config.on_error == "release"
    if state is HandlerState.FAILED:
        return True
    is_asked = asks_tool or config.reconcile is not None
    return not is_asked and (state is HandlerState.RAISED or tool.category == "read")

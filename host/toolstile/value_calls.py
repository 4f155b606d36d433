"""Calls of a host that return the value of the tool: `Host.call` and `Host.acall`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from toolstile_hookspecs import Outcome, StateError, ToolCall, ToolstileError
from toolstile_hookspecs.support.event_loop import is_on_loop, off_loop
from toolstile_hookspecs.support.process import close_at_exit

if TYPE_CHECKING:
    from toolstile.executor import Executor

_ON_LOOP: Final = (
    "host.call would block the event loop that runs here. Write: await host.acall({name!r}, ...)"
)
_ENDED: Final = "This host was closed. Make a new Host, or open it again: with host: ..."


class CallFailed(ToolstileError):
    """A call by `Host.call` did not succeed. Its text is the text that a model would read.

    Args:
        outcome: The outcome: its status, its event, and the ticket and token of a call that waits
            for approval.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.call = outcome.call

    def __str__(self) -> str:
        return self.outcome.text


class OpenableHost(Protocol):
    """The part of a host that opens it."""

    is_open: bool

    def open(self) -> object:
        """Open the host."""


class ValueCalls:
    """The one executor of a host for calls without an executor; opens the host at the first one."""

    def __init__(self, host: OpenableHost, make: Callable[[], Executor]) -> None:
        self._host = host
        self._make = make
        self._executor: Executor | None = None
        # Held while the host opens: the first calls may come on several threads.
        self._opening = threading.RLock()
        self.is_ended = False

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Make a call and return its value; see `Host.call`."""
        if is_on_loop():
            raise StateError(_ON_LOOP.format(name=name))
        return _value(self._opened().dispatch(ToolCall(name, arguments)))

    async def acall(self, name: str, arguments: dict[str, Any]) -> Any:
        """Make a call on the event loop and return its value."""
        if (executor := self._executor) is None:
            executor = await off_loop(self._opened)
        return _value(await executor.adispatch(ToolCall(name, arguments)))

    def _opened(self) -> Executor:
        if (executor := self._executor) is not None:
            return executor
        with self._opening:
            if self._executor is None:
                if not self._host.is_open:
                    self._open()
                self._executor = self._make()
            return self._executor

    def _open(self) -> None:
        if self.is_ended:
            raise StateError(_ENDED)
        try:
            self._host.open()
        except BaseException:
            self.is_ended = False  # the next call tries again
            raise
        close_at_exit(self._host)

    def close(self) -> None:
        """Close the executor, and refuse further calls until the host is opened again."""
        with self._opening:
            self.is_ended = True
            executor, self._executor = self._executor, None
            if executor is not None:
                executor.close()


def _value(outcome: Outcome) -> Any:
    if outcome.success:
        return outcome.result.value
    raise CallFailed(outcome)

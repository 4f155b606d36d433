"""The settings of code mode, the table `[plugins.code]`, and the processes of scripts."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Annotated, Any, Final
from weakref import finalize

from pydantic import BaseModel, ConfigDict, Field

from toolstile_hookspecs import ToolContext, ToolSelector, ToolValidationError
from toolstile_hookspecs.support.process import renewed_in_forks
from toolstile_plugins.cli_support import needing

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontySession

FREE_WITHIN: Final = 5.0
"""Seconds for which a script waits for a worker."""

_opening = renewed_in_forks(__name__, "_opening", threading.Lock)
# Processes where the library has begun; its threads do not exist in a fork.
_begun: list[int] = []


def monty() -> Any:
    """Return the library that runs scripts, or raise `ConfigurationError` with the remedy."""
    with needing("run_python needs pydantic-monty, which is not installed.", "workspace"):
        import pydantic_monty
    return pydantic_monty


class Workers:
    """A pool of workers, which end when it is closed or garbage, and with the host's process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool: Monty | None = None
        self._finalizer: Callable[[], object] = lambda: None

    @contextlib.contextmanager
    def session(self, context: ToolContext, **options: Any) -> Generator[MontySession]:
        """Give a worker, killed if the call is cancelled; `ToolValidationError` if none is free."""
        with contextlib.ExitStack() as stack:
            try:
                session = stack.enter_context(self._opened().checkout(**options))
            except TimeoutError:
                raise ToolValidationError(
                    f"All {self._most} workers for scripts are busy. Wait a while, then retry."
                ) from None
            lock = threading.Lock()
            alive = [session.worker_pid] if session.worker_pid is not None else []

            def kill() -> None:
                # Under a lock, because the worker may serve another call a moment later.
                with lock, contextlib.suppress(ProcessLookupError):
                    if alive:
                        os.kill(alive.pop(), signal.SIGKILL)

            take_back = context.on_abandoned(kill)
            try:
                yield session
            finally:
                take_back()
                with lock:
                    alive.clear()

    def close(self) -> None:
        """End the workers; the next script starts others."""
        with _opening:
            self._finalizer()
            self._pool = None

    def _opened(self) -> Monty:
        with _opening:
            if any(process != os.getpid() for process in _begun):
                raise ToolValidationError(
                    "No script can run here: this process was forked after scripts had run in it. "
                    "This requires human intervention: fork before the first script."
                )
            if self._pool is None:
                _begun[:] = [os.getpid()]
                made: Monty = monty().Monty(max_processes=self._most, checkout_timeout=FREE_WITHIN)
                self._pool = made.__enter__()
                self._finalizer = finalize(self, _end, os.getpid(), self._pool)
            return self._pool


def _end(process: int, pool: Monty) -> None:
    if process == os.getpid():
        pool.__exit__(None, None, None)


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Positive = Annotated[int, Field(gt=0, strict=True)]


class CodeConfig(BaseModel):
    """The settings of `run_python`.

    Args:
        functions: The tools that a script can call, as fields of a selector; None for all tools
            of its prompt.
        type_check: Whether a script is checked against the types of its functions before it runs.
        compute_seconds: Seconds for which a script itself may compute.
        timeout: Seconds for a script with its calls, None for any time. Waiting for a person does
            not count.
        memory: The maximum bytes of a script's values.
        max_calls: The maximum number of calls of a script.
        max_output: Characters after which its printed output, and its value, are cut.
        max_signatures: Characters of the signatures in the tool's description; further functions
            have only their names there.
        workers: The maximum number of scripts at once.

    Example:
        >>> CodeConfig(functions={"category": ["read"]}).workers
        8
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    functions: ToolSelector | None = None
    type_check: bool = True
    compute_seconds: Seconds = 5.0
    timeout: Seconds | None = 60.0
    memory: Positive = 64 * 1024 * 1024
    max_calls: Positive = 1_000
    max_output: Positive = 30_000
    max_signatures: Positive = 8_000
    workers: Positive = 8

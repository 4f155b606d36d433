"""Waiting for a workspace that another commit holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from toolstile_hookspecs import ResourceBusyError

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0
_FIRST_PAUSE_SECONDS: Final = 0.000_5
_LONGEST_PAUSE_SECONDS: Final = 0.02


def wait(attempt: Callable[[], T | None]) -> T:
    """Try until it succeeds, blocking the thread between.

    Raises:
        ResourceBusyError: When the other one does not end.
    """
    for pause in _pauses():
        done = attempt()
        if done is not None:
            return done
        time.sleep(pause)
    raise _busy()


async def wait_async(attempt: Callable[[], T | None]) -> T:
    """Try until it succeeds, leaving the loop to others between; raises as `wait` does."""
    # Late, as it is slow to import, and commands that dispatch nothing do without it.
    import asyncio

    for pause in _pauses():
        done = attempt()
        if done is not None:
            return done
        await asyncio.sleep(pause)
    raise _busy()


def _pauses() -> Iterator[float]:
    end = time.monotonic() + PATIENCE_SECONDS
    pause = _FIRST_PAUSE_SECONDS
    while time.monotonic() < end:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _busy() -> ResourceBusyError:
    return ResourceBusyError(
        f"The workspace was held by another commit or program for {PATIENCE_SECONDS:.0f} "
        "seconds, so nothing of this call was kept. Retry later."
    )

"""Kills of workers at random instants, while they run calls that are told to be met."""

# ruff: noqa: S311 - random instants are no secrets

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Collection
from typing import Any, Final

from toolstile_hookspecs.testing.dispatch.dispatch_processes import PATIENCE, PAUSE, Processes

WORKERS: Final = 3
AT_ONCE: Final = 4
"""Calls that a worker runs at once."""
STOPPED_EVERY: Final = 10
STANDSTILL: Final = 2.0
"""Seconds for which a worker stands still, longer than it takes to count as dead."""
LATEST: Final = 0.2
"""Seconds within which a worker is killed once a call runs that is to be met."""


class Kills:
    """Workers, of which one at a time is killed while it runs calls; another takes its place.

    Args:
        processes: The processes of the test.

    Attributes:
        number: How many workers were killed.
        met: The keys of calls whose handlers ran when their worker was killed.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._workers = [processes.worker(AT_ONCE) for _ in range(WORKERS)]
        self.number = 0
        self.met: set[str] = set()

    def until_met(self, keys: Collection[str]) -> None:
        """Kill workers until each of some calls, which run until then, has lost its own."""
        while left := set(keys) - self.met:
            victim = self._one_that_runs(left)
            time.sleep(random.uniform(0, LATEST))
            if self.number % STOPPED_EVERY == 1 and hasattr(signal, "SIGSTOP"):
                _let_stand_still(victim)
            self._kill(victim)

    def _one_that_runs(self, keys: set[str]) -> Any:
        until = time.monotonic() + PATIENCE
        while True:
            busy = [one for one in self._workers if keys & self._processes.running(one.pid)]
            if busy:
                return random.choice(busy)
            assert time.monotonic() < until, f"No worker runs one of {sorted(keys)}"
            time.sleep(PAUSE)

    def _kill(self, victim: Any) -> None:
        victim.kill()
        victim.join()
        self.number += 1
        self.met |= self._processes.running(victim.pid)
        self._workers.remove(victim)
        self._workers.append(self._processes.worker(AT_ONCE))


def _let_stand_still(worker: Any) -> None:
    os.kill(worker.pid, signal.SIGSTOP)
    time.sleep(STANDSTILL)
    os.kill(worker.pid, signal.SIGCONT)
    # It may go on with what it did, and tell of it.
    time.sleep(random.uniform(0, LATEST))

"""Kills of workers at random instants, while they run calls that are told to be met."""

# ruff: noqa: S311 - random instants are no secrets

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Collection
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

    def until_met(self, keys: Collection[str], is_told: Callable[[str], bool]) -> None:
        """Kill workers until each of some calls, which run until then, has lost its own.

        Args:
            keys: The keys of the calls.
            is_told: Tells whether a call has ended: it may have begun and lost its worker unseen.
        """
        until = time.monotonic() + PATIENCE
        while True:
            running = {one: self._processes.running(one.pid) for one in self._workers}
            left = set(keys) - self.met
            left -= {key for key in left.difference(*running.values()) if is_told(key)}
            if not left:
                return
            if busy := [one for one, its in running.items() if its & left]:
                time.sleep(random.uniform(0, LATEST))
                self._kill(random.choice(busy))
                until = time.monotonic() + PATIENCE
            assert time.monotonic() < until, f"No worker runs one of {sorted(left)}"
            time.sleep(PAUSE)

    def _kill(self, victim: Any) -> None:
        if self.number % STOPPED_EVERY == 1 and hasattr(signal, "SIGSTOP"):
            _let_stand_still(victim)
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

"""Workers and hosts of the suite of dispatchers, in processes that the tests kill."""

# ruff: noqa: S311 - random instants are no secrets

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs.services.dispatcher import (
    DispatchedCall,
    Dispatcher,
    DispatchOutcome,
    DispatchState,
)

PATIENCE: Final = 60.0
"""Seconds after which a test gives up."""
PAUSE: Final = 0.005
Make = Callable[[], Dispatcher]


class NotingRunner:
    """Runs `note`: it adds its key to a file, and then takes its time, or waits to be let go.

    Once that is over it adds its key to another file.
    """

    def __init__(self) -> None:
        self.tools: Mapping[str, str | None] = {"note": "1.0.0"}
        self._ends: dict[str, str] = {}

    def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:
        params = json.loads(call.params)
        if not begin():
            return DispatchOutcome(DispatchState.NOT_RUN)
        _add(Path(params["file"]), f"{call.key} {os.getpid()}")
        until = time.monotonic() + params.get("seconds", 0)
        while time.monotonic() < until or (params["held"] and not _gate(params["file"]).exists()):
            if call.key in self._ends:
                return DispatchOutcome(DispatchState.UNKNOWN, self._ends[call.key])
            time.sleep(PAUSE)
        _add(_ends(params["file"]), call.key)
        if "fault" in params:
            return DispatchOutcome(DispatchState.FAILURE, params["fault"], error="ValueError")
        return DispatchOutcome(DispatchState.RESULT, "Noted.", json.dumps(call.key))

    def end(self, key: str, reason: str) -> None:
        self._ends[key] = reason


def _add(path: Path, line: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _ends(file: str) -> Path:
    return Path(file).with_suffix(".ends")


def _gate(file: str) -> Path:
    return Path(file).with_suffix(".go")  # once it exists, held handlers end


def _serve(make: Make, concurrency: int, up: Any) -> None:
    stop = threading.Event()

    def drain(*_: object) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, drain)
    with contextlib.closing(make()) as dispatcher:
        up.set()
        dispatcher.serve(NotingRunner(), concurrency=concurrency, stop=stop)


def _submit(make: Make, calls: list[DispatchedCall], up: Any) -> None:
    async def submit_all(dispatcher: Dispatcher) -> None:
        up.set()
        await asyncio.gather(*map(dispatcher.submit, calls))

    with contextlib.closing(make()) as dispatcher:
        asyncio.run(submit_all(dispatcher))


class Processes:
    """The processes of a test, ended with it.

    Args:
        make: Makes the dispatcher; it is pickled.
        folder: A folder of the test's own.
    """

    def __init__(self, make: Make, folder: Path) -> None:
        self._make = make
        quick = "forkserver" in multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if quick else "spawn")
        if quick:
            # One process imports for all, because each would take as long.
            maker = getattr(make, "func", make)
            self._context.set_forkserver_preload([__name__, maker.__module__])
        self._started: list[Any] = []
        self._file = folder / "notes.txt"

    def worker(self, concurrency: int = 2) -> Any:
        """Start a worker; returns its process once it is up."""
        return self._start(_serve, concurrency)

    def host(self, *calls: DispatchedCall) -> Any:
        """Start a host that submits calls; returns its process once it is up."""
        return self._start(_submit, list(calls))

    def _start(self, target: Callable[..., None], given: Any) -> Any:
        up = self._context.Event()
        process = self._context.Process(target=target, args=(self._make, given, up), daemon=True)
        process.start()
        self._started.append(process)
        assert up.wait(PATIENCE), "The process did not start; see its traceback"
        return process

    def call(
        self, key: str, *, seconds: float = 0, held: bool = False, fault: str = "", **more: Any
    ) -> DispatchedCall:
        """Return a call of `note`; if held, it runs until `let_go`."""
        params: dict[str, Any] = {"file": str(self._file), "seconds": seconds, "held": held}
        if fault:
            params["fault"] = fault
        given: dict[str, Any] = {"version": "1.0.0", **more}
        return DispatchedCall(key, "note", params=json.dumps(params), **given)

    def let_go(self) -> None:
        """Let the held handlers end."""
        _gate(str(self._file)).touch()

    def noted(self) -> list[str]:
        """Return the keys of the handlers that ran, in order."""
        return [line.split()[0] for line in _lines(self._file)]

    def running(self, worker: int) -> set[str]:
        """Return the keys whose handlers have begun in a worker, by its process, and not ended."""
        begun = {
            key for key, process in map(str.split, _lines(self._file)) if process == f"{worker}"
        }
        return begun.difference(_lines(_ends(str(self._file))))

    def await_note(self, *keys: str) -> None:
        """Wait until handlers have begun."""
        until = time.monotonic() + PATIENCE
        while not set(keys) <= set(self.noted()):
            assert time.monotonic() < until, f"{keys} did not begin; noted: {self.noted()}"
            time.sleep(PAUSE)

    def close(self) -> None:
        """Kill all that still run."""
        for process in self._started:
            process.kill()
            process.join()


WORKERS: Final = 3
AT_ONCE: Final = 4
"""Calls that a worker runs at once."""
STOPPED_EVERY: Final = 10
STANDSTILL: Final = 2.0
"""Seconds for which a worker stands still, longer than it takes to count as dead."""
LATEST: Final = 0.2
"""Seconds within which a worker is killed once a call runs that is to be met."""


class Kills:
    """Workers, killed one at a time while they run calls; another takes the place of each.

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
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(STANDSTILL)
            os.kill(victim.pid, signal.SIGCONT)
            # It may continue its calls, and record outcomes.
            time.sleep(random.uniform(0, LATEST))
        victim.kill()
        victim.join()
        self.number += 1
        self.met |= self._processes.running(victim.pid)
        self._workers.remove(victim)
        self._workers.append(self._processes.worker(AT_ONCE))

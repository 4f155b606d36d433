"""Call a tool that never returns, with a timeout of one second where the peer takes one.

A program of its own, `python blocking.py RUNNER`, for it may have to be killed. It prints one line
of JSON, then ends if it can.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from time import perf_counter, sleep
from typing import Final, TextIO

from contestant import Awaiting, Offer, Way
from runner import apart, contestant_of

TIMEOUT: Final = 1.0
PATIENCE: Final = 3.0
"""The seconds that the call is waited for."""

TICK: Final = 0.05
ARGUMENTS: Final = '{"seconds": 3600}'


class _Watch:
    """One call: when its handler began, what came of it, and whether the loop went on."""

    def __init__(self, way: Way, out: TextIO) -> None:
        self._way = way
        self._out = out
        self._began: float | None = None
        self.refused: str | None = None
        self._entered = threading.Event()
        self._ticks: int | None = None
        self._told = threading.Lock()

    def handler(self) -> Callable[..., str]:
        def wait(seconds: int) -> str:
            """Wait for some seconds."""
            self._entered.set()
            sleep(seconds)
            return "waited"

        return wait

    def async_handler(self) -> Callable[..., Awaitable[str]]:
        waiting = self.handler()

        async def wait(seconds: int) -> str:
            """Wait for some seconds."""
            return waiting(seconds)

        return wait

    async def tick(self) -> None:
        self._ticks = 0
        while True:
            await asyncio.sleep(TICK)
            if self._entered.is_set():
                self._ticks += 1

    @property
    def began(self) -> bool:
        return self._began is not None

    def begin(self) -> None:
        self._began = perf_counter()
        threading.Thread(target=self._lose_patience, daemon=True).start()

    def tell(self, answer: str | None) -> None:
        """Say what was seen, once."""
        if not self._told.acquire(blocking=False):
            return
        assert self._began is not None
        seen = {
            "way": self._way.name,
            "timeout": self._timeout(),
            "answer": None if answer is None else answer[:1000],
            "after": perf_counter() - self._began,
            "entered": self._entered.is_set(),
            "loop_went_on": None if self._ticks is None else self._ticks > 2,
        }
        print(json.dumps(seen), file=self._out, flush=True)

    def _timeout(self) -> str:
        if self.refused is not None:
            return f"refused: {self.refused}"
        if self._way.times_out:
            return "set"
        return "none to set" if "sync" in self._way.handlers else "none to set, async handlers only"

    def _lose_patience(self) -> None:
        sleep(PATIENCE)
        self.tell(None)


def observe(way: Way, watch: _Watch) -> None:
    """Make the call, with a timeout where it can be given one, and say what was seen."""
    try:
        _call(way, watch, TIMEOUT if way.times_out else None)
    except Exception as error:
        if watch.began:
            raise
        watch.refused = str(error)
        _call(way, watch, None)


def _call(way: Way, watch: _Watch, timeout: float | None) -> None:
    handler = watch.handler() if "sync" in way.handlers else watch.async_handler()
    opened = way.opened(Offer({"wait": handler}, timeout))
    if isinstance(opened, AbstractContextManager):
        with opened as call:
            watch.begin()
            watch.tell(_answer_of(lambda: call("wait", ARGUMENTS)))
    else:
        asyncio.run(_observe_awaited(opened, watch))


async def _observe_awaited(opened: AbstractAsyncContextManager[Awaiting], watch: _Watch) -> None:
    async with opened as call:
        ticking = asyncio.create_task(watch.tick())
        await asyncio.sleep(TICK)
        watch.begin()
        try:
            answer = str(await call("wait", ARGUMENTS))
        # Whatever comes is what is looked for.
        except Exception as error:  # noqa: BLE001 - the answer
            answer = f"{type(error).__name__}: {error}"
        watch.tell(answer)
        ticking.cancel()


def _answer_of(call: Callable[[], object]) -> str:
    try:
        return str(call())
    except Exception as error:  # noqa: BLE001 - the answer
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    with apart() as (_, out):
        way = contestant_of(sys.argv[1]).in_time
        observe(way, _Watch(way, out))

"""Whole hosts and workers, killed at random while they pay."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest

from toolstile import ToolCall
from toolstile_hookspecs import Outcome
from toolstile_hookspecs.testing.dispatch_processes import PATIENCE, PAUSE

from .conftest import Site

pytestmark = pytest.mark.long

ORDERS = 200
WAVE = 12
"""Orders for each kill, which ends up to four of them: every fourth, about, loses its worker."""
STOPPED_EVERY = 5


async def pay(site: Site, disturb: Callable[[], object] = bool) -> dict[int, Outcome]:
    """Pay orders, a few at once, and do something while they run; return the outcomes."""
    with site.host(patience=PATIENCE) as host, host.executor() as tools:
        paying: list[asyncio.Future[Outcome]] = []
        while len(paying) < ORDERS:
            for order in range(len(paying), min(len(paying) + WAVE, ORDERS)):
                arguments = {"order": order, "seconds": random.uniform(0, 0.5)}
                call = ToolCall("pay", arguments)
                paying.append(asyncio.ensure_future(tools.adispatch(call)))
            await asyncio.to_thread(disturb)
        return dict(enumerate(await asyncio.gather(*paying)))


class Disturbance:
    """Three workers, of which one is killed at a time or stands still, and a host that dies."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._workers = [site.start(concurrency=4) for _ in range(3)]
        orders = range(0, ORDERS, 2)
        self._host = site.start_host(*orders, patience=PATIENCE, seconds=0.5)
        self._noted = 0
        self.number = 0

    def __call__(self) -> None:
        """Disturb once, at a random instant while calls run."""
        until = time.monotonic() + PATIENCE
        while len(self._site.noted()) == self._noted:
            assert time.monotonic() < until, "no worker runs anything"
            time.sleep(PAUSE)
        time.sleep(random.uniform(0, 0.3))
        self._host.kill()
        self.number += 1
        victim = random.choice(self._workers)
        if self.number % STOPPED_EVERY == 0:
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(2)
            os.kill(victim.pid, signal.SIGCONT)
        else:
            victim.kill()
            self._workers.remove(victim)
            self._workers.append(self._site.start(concurrency=4))
        self._noted = len(self._site.noted())


def paid_in(site: Site) -> Counter[int]:
    return Counter(int(line.split()[1]) for line in site.noted())


def test_nothing_is_paid_twice_and_every_caller_is_told(any_site: Site):
    disturbance = Disturbance(any_site)
    outcomes = asyncio.run(pay(any_site, disturbance))

    paid = paid_in(any_site)
    assert {order for order, times in paid.items() if times > 1} == set()
    told = {order for order, outcome in outcomes.items() if outcome.success}
    unknown = {order for order, outcome in outcomes.items() if "is unknown" in outcome.text}
    assert told | unknown == set(range(ORDERS))
    assert told <= paid.keys()
    # Most kills have met a call that ran.
    assert len(unknown) > disturbance.number / 2
    # Asked again, nothing of it runs.
    again = asyncio.run(pay(any_site))
    assert paid_in(any_site) == paid
    assert told <= {order for order, outcome in again.items() if outcome.success}

"""Whole hosts and workers, killed at random while they pay."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from threading import Thread

import pytest

from toolstile import ToolCall
from toolstile_hookspecs import Outcome
from toolstile_hookspecs.testing.dispatch.dispatch_processes import PATIENCE, PAUSE

from .conftest import Site

pytestmark = pytest.mark.long

ORDERS = 200
KILLS = 12
"""Each ends up to four calls: every fourth loses its worker."""
AT_ONCE = 16


async def pay(site: Site, orders: range) -> dict[int, Outcome]:
    """Pay orders, a few at once, and return the outcomes by order."""
    outcomes: dict[int, Outcome] = {}
    turn = asyncio.Semaphore(AT_ONCE)

    async def pay_one(order: int) -> None:
        async with turn:
            arguments = {"order": order, "seconds": random.uniform(0, 0.1)}
            outcomes[order] = await tools.adispatch(ToolCall("pay", arguments))

    with site.host(patience=PATIENCE) as host, host.executor() as tools:
        await asyncio.gather(*map(pay_one, orders))
    return outcomes


def disturb(site: Site) -> None:
    """Kill workers at random, let one stand still now and then, and kill a host as well."""
    workers = [site.start(concurrency=4) for _ in range(3)]
    host = site.start_host(*range(0, ORDERS, 2), patience=PATIENCE, seconds=0.5)
    while not site.noted():
        time.sleep(PAUSE)
    for number in range(KILLS):
        time.sleep(random.uniform(0, 0.5))
        if number == 0:
            host.kill()
        at = random.randrange(len(workers))
        if number % 5 == 4:
            os.kill(workers[at].pid, signal.SIGSTOP)
            time.sleep(2)
            os.kill(workers[at].pid, signal.SIGCONT)
        else:
            workers[at].kill()
            workers[at] = site.start(concurrency=4)


def test_nothing_is_paid_twice_and_every_caller_is_told(site: Site):
    disturbing = Thread(target=disturb, args=(site,))
    disturbing.start()
    outcomes = asyncio.run(pay(site, range(ORDERS)))
    disturbing.join()

    paid = Counter(int(line.split()[1]) for line in site.noted())
    assert {order for order, times in paid.items() if times > 1} == set()
    told = {order for order, outcome in outcomes.items() if outcome.success}
    unknown = {order for order, outcome in outcomes.items() if "is unknown" in outcome.text}
    assert told | unknown == set(range(ORDERS))
    assert told <= paid.keys()
    # Asked again, nothing of it runs.
    again = asyncio.run(pay(site, range(ORDERS)))
    assert Counter(int(line.split()[1]) for line in site.noted()) == paid
    assert told <= {order for order, outcome in again.items() if outcome.success}

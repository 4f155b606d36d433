"""Workers killed while their handlers change the session of a host and ask it for other calls."""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
from collections import Counter
from threading import Event, Thread

import pytest

from toolstile import ToolCall
from toolstile_hookspecs import Outcome
from toolstile_hookspecs.testing.dispatch_processes import PATIENCE

from .conftest import Site
from .connected_tools import Entry
from .test_connected_calls import MODULE, host_of

pytestmark = pytest.mark.long

KILLS = 10
AT_ONCE = 8


def kill_workers(site: Site, stop: Event, kills: list[int]) -> None:
    """Kill one worker after another while its handlers run; a new one is always up before."""
    workers: list[subprocess.Popen[str]] = []
    while not stop.is_set() and len(kills) < KILLS:
        while len(workers) < 3:
            workers.append(site.start(concurrency=4, tools=MODULE))
        begun = len(site.noted())
        while len(site.noted()) < begun + random.randint(1, 3) and not stop.wait(0.002):
            pass
        victim = workers.pop(random.randrange(len(workers)))
        kills.append(victim.pid)
        victim.kill()


async def pay(site: Site, killing: Thread) -> tuple[dict[int, Outcome], list[int]]:
    """Pay orders as long as workers are killed.

    Returns:
        The outcomes by order, and the orders that are booked.
    """
    outcomes: dict[int, Outcome] = {}
    orders = itertools.count()

    async def go_on() -> None:
        while killing.is_alive():
            order = next(orders)
            arguments = {"order": order, "seconds": random.uniform(0, 1)}
            outcomes[order] = await tools.adispatch(ToolCall("pay_booked", arguments))

    with host_of(site, patience=PATIENCE) as host, host.executor() as tools:
        await asyncio.gather(*(go_on() for _ in range(AT_ONCE)))
        return outcomes, [entry.order for entry in tools.session[Entry].all()]


def test_the_session_has_what_succeeded_and_nothing_else(any_site: Site):
    stop, kills = Event(), list[int]()
    killing = Thread(target=kill_workers, args=(any_site, stop, kills))
    killing.start()
    try:
        outcomes, booked = asyncio.run(pay(any_site, killing))
    finally:
        stop.set()
        killing.join()

    paid = Counter(int(line.split()[1]) for line in any_site.noted())
    assert len(kills) == KILLS
    assert set(paid.values()) == {1}
    told = {order for order, outcome in outcomes.items() if outcome.success}
    unknown = {order for order, outcome in outcomes.items() if "is unknown" in outcome.text}
    assert [outcomes[order].text for order in outcomes.keys() - told - unknown] == []
    assert told <= paid.keys()
    # One item before the payment, and one after it.
    assert Counter(booked) == dict.fromkeys(told, 2)
    assert len(unknown) >= KILLS

"""Fifty users of the web service at once, one of whose two processes is killed: nothing is lost."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytest.importorskip("starlette")

from .desk_server import desk_in, served

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL"),
]
USERS = 50
LONGEST_THOUGHT = 1.5
"""Seconds after which a person answers, at the latest: so calls wait when the process dies."""


@dataclass
class Load:
    """Users who ask, and people who approve.

    Attributes:
        until: The moment from which on nobody asks for anything more.
        told: The numbers that each user was told were paid.
        asked_by: The process that asked, by ticket.
        waiting: The questions that people think about.
        killed: The process that was killed.
        left: The questions that waited then and were asked by it.
        moved: For each of these, the process that asked and the one that went on.
    """

    http: httpx2.AsyncClient
    until: float
    told: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    asked_by: dict[str, int] = field(default_factory=dict[str, int])
    waiting: set[str] = field(default_factory=set[str])
    killed: int | None = None
    left: set[str] = field(default_factory=set[str])
    moved: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    async def visit(self, user: str) -> None:
        """Buy one thing after another."""
        numbers = self.told[user] = []
        while time.monotonic() < self.until:
            number = len(numbers) + 1
            text = await self.buy(user, number)
            assert text == f"Paid {number} x mug, {number * 12} euros.", (user, text)
            numbers.append(number)

    async def buy(self, user: str, number: int) -> str:
        """Ask until there is an answer: what breaks is sent again."""
        asked = {"id": f"{user}-{number}", "text": f"{number} mug"}
        while True:
            told = await self.post(f"/users/{user}/requests", asked)
            for waits in told.get("asks", ()):
                told = await self.approve(waits["ticket"], told["worker"]) or told
            if "text" in told:
                return told["text"]
            await asyncio.sleep(0.1)

    async def approve(self, ticket: str, worker: int) -> dict[str, Any]:
        """Think, then approve."""
        self.asked_by.setdefault(ticket, worker)
        self.waiting.add(ticket)
        await asyncio.sleep(random.uniform(0, LONGEST_THOUGHT))
        told = await self.post(f"/questions/{ticket}", {"approve": True})
        self.waiting.discard(ticket)
        if ticket in self.left and "text" in told:
            self.moved.append((self.asked_by[ticket], told["worker"]))
        return told

    async def post(self, path: str, given: dict[str, Any]) -> dict[str, Any]:
        """Send a request; where its connection breaks, nothing comes back."""
        try:
            reply = await self.http.post(path, json=given, headers={"x-person": "bob"})
        except httpx2.TransportError:
            return {}
        assert reply.status_code in {200, 409, 503}, reply.text
        return {**reply.json(), "worker": int(reply.headers["x-worker"])}

    async def kill(self, after: float) -> None:
        """Kill the process that has most calls waiting."""
        await asyncio.sleep(after)
        while len(self.waiting) < USERS / 10:  # noqa: ASYNC110 - the machine may be slow
            await asyncio.sleep(0.05)
        ((self.killed, _),) = Counter(map(self.asked_by.get, self.waiting)).most_common(1)
        self.left = {each for each in self.waiting if self.asked_by[each] == self.killed}
        os.kill(self.killed, signal.SIGKILL)


async def run(url: str, seconds: float) -> Load:
    # A connection for each request reaches either process.
    limits = httpx2.Limits(max_keepalive_connections=0)
    async with httpx2.AsyncClient(base_url=url, limits=limits, timeout=120) as http:
        load = Load(http, time.monotonic() + seconds)
        visits = [load.visit(f"user-{number}") for number in range(USERS)]
        await asyncio.gather(load.kill(seconds / 2), *visits)
    return load


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.long)])
def test_nothing_is_lost_and_what_waits_goes_on_in_the_other_process(
    tmp_path: Path, seconds: float
) -> None:
    with served(tmp_path) as url:
        load = asyncio.run(run(url, seconds))

    # Whoever had asked, another process went on.
    assert load.moved
    assert {asked for asked, _ in load.moved} == {load.killed}
    assert load.killed not in {went_on for _, went_on in load.moved}

    from desk import Payment

    desk = desk_in(tmp_path)
    with desk.host as host:
        for user, told in load.told.items():
            assert told, user
            with host.executor(session_id=user) as tools:
                assert [each.number for each in tools.session[Payment].all()] == told
    assert asyncio.run(questions(desk_in(tmp_path))) == []


async def questions(desk: Any) -> list[Any]:
    async with desk.host:
        return await desk.questions()

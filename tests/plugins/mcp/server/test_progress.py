"""The progress of handlers reaches the client, all of it before the result."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import pytest

from toolstile_plugins.mcp.server.request import WAITING, ProgressRelay

pytestmark = pytest.mark.anyio


class Client:
    """Takes reports, slowly where that is asked for."""

    def __init__(self) -> None:
        self.heard: list[float] = []
        self.said: list[tuple[float, float | None, str | None]] = []
        self.may_take = anyio.Event()
        self.may_take.set()

    async def take(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        await self.may_take.wait()
        self.heard.append(progress)
        self.said.append((progress, total, message))


@pytest.fixture
def client() -> Client:
    return Client()


async def test_what_was_reported_just_before_the_end_is_sent(client):
    relay = ProgressRelay(client.take)
    thread = threading.Thread(target=lambda: [relay.report(each, 3, None) for each in (1, 2, 3)])
    thread.start()
    thread.join()
    # The loop has not come to any of it.
    await relay.finish()
    assert client.heard == [1, 2, 3]


async def test_it_only_grows(client):
    relay = ProgressRelay(client.take)
    for each in (1, 3, 2, 3):
        relay.report(each, None, None)
        await anyio.lowlevel.checkpoint()
    relay.report(4, None, None)
    await relay.finish()
    assert client.heard == [1, 3, 4]


@pytest.mark.parametrize("given", [float("nan"), float("inf"), 10**400, "half", None])
async def test_what_is_no_number_is_left_out(client, given):
    relay = ProgressRelay(client.take)
    relay.report(1, given, None)
    relay.report(given, 3, None)
    relay.report(2, 3, None)
    await relay.finish()
    assert client.said == [(1, None, None), (2, 3, None)]


async def test_a_message_that_is_no_text_can_be_sent(client):
    relay = ProgressRelay(client.take)
    relay.report(1, None, "caf\udce9.txt")
    await relay.finish()
    assert client.said == [(1, None, r"caf\udce9.txt")]


async def test_of_too_many_for_a_slow_client_the_last_win(client):
    relay = ProgressRelay(client.take)
    client.may_take = anyio.Event()
    relay.report(0, None, None)
    await anyio.wait_all_tasks_blocked()
    for each in range(1, 2 * WAITING + 1):
        relay.report(each, None, None)
    client.may_take.set()
    await relay.finish()
    assert client.heard == [0, *range(WAITING + 1, 2 * WAITING + 1)]


async def test_when_it_is_stopped_nothing_more_is_sent(client):
    relay = ProgressRelay(client.take)
    relay.report(1, None, None)
    relay.stop()
    relay.report(2, None, None)
    await relay.finish()
    await anyio.wait_all_tasks_blocked()
    assert client.heard == []

"""The turns of a foreign agent: its calls are one batch, though they come one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import pytest

from toolstile import Executor, Host
from toolstile_hookspecs import Outcome, Status, ToolCall, ToolInvoked, tool
from toolstile_plugins.adapters.turns import MAX_TURNS, Turns, id_in

IDS = ("c1", "c2", "c3")


@tool
async def say(text: str) -> str:
    """Say something, the later calls first."""
    await asyncio.sleep(0.001 * (3 - int(text)))
    return text


@pytest.fixture
def tools() -> Iterator[Executor]:
    with Host(discover=False, tools=[say]) as host, host.executor() as made:
        yield made


def call(number: int) -> ToolCall:
    return ToolCall("say", {"text": str(number)}, id=f"c{number}")


def ended(tools: Executor) -> list[str]:
    return [event.call.wire_id for event in tools.session[ToolInvoked].all()]


async def together(
    turns: Turns, numbers: Sequence[int], ids: Sequence[str] = IDS, turn: str = "turn"
) -> list[str]:
    outcomes = await asyncio.gather(*(turns.dispatch(call(n), turn, ids) for n in numbers))
    return [outcome.text for outcome in outcomes]


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_calls_end_in_call_order_however_they_come(tools: Executor, order: Sequence[int]) -> None:
    said = asyncio.run(together(Turns(tools), order))
    assert said == [str(n) for n in order]
    assert ended(tools) == list(IDS)


def test_a_call_that_never_comes_holds_nobody_up(tools: Executor) -> None:
    assert asyncio.run(together(Turns(tools), [3, 1])) == ["3", "1"]
    assert ended(tools) == ["c1", "c3"]


def test_a_call_that_comes_late_is_a_single_one(tools: Executor) -> None:
    turns = Turns(tools)

    async def run() -> list[str]:
        return await together(turns, [3, 1]) + await together(turns, [2])

    assert asyncio.run(run()) == ["3", "1", "2"]
    assert ended(tools) == ["c1", "c3", "c2"]


def test_a_call_that_comes_again_is_a_single_one(tools: Executor) -> None:
    assert asyncio.run(together(Turns(tools), [1, 2, 1, 3])) == ["1", "2", "1", "3"]


def test_ids_that_are_not_unique_make_no_batch(tools: Executor) -> None:
    assert asyncio.run(together(Turns(tools), [1, 2], ids=["c1", "c1", "c2"])) == ["1", "2"]


def test_the_ids_of_a_turn_may_come_again_in_another(tools: Executor) -> None:
    turns = Turns(tools)

    async def run() -> None:
        for turn in range(MAX_TURNS + 2):
            await together(turns, [2, 1], ids=["c1", "c2"], turn=f"turn {turn}")

    asyncio.run(run())
    assert ended(tools)[-4:] == ["c1", "c2", "c1", "c2"]


def test_a_call_that_is_cancelled_before_its_turn_begins_is_left_out(tools: Executor) -> None:
    turns = Turns(tools)

    async def run() -> list[Any]:
        tasks = [asyncio.ensure_future(turns.dispatch(call(n), "turn", IDS)) for n in (1, 2)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        return [each.text if isinstance(each, Outcome) else type(each) for each in ends]

    assert asyncio.run(run()) == [asyncio.CancelledError, "2"]
    assert ended(tools) == ["c2"]


def test_a_call_that_is_cancelled_as_its_turn_begins_is_ended(tools: Executor) -> None:
    turns = Turns(tools)

    async def run() -> list[Any]:
        tasks = [asyncio.ensure_future(turns.dispatch(call(n), "turn", IDS)) for n in (1, 2)]
        await asyncio.sleep(0)
        last = asyncio.ensure_future(turns.dispatch(call(3), "turn", IDS))
        # The third call begins the batch, and the first is cancelled before it is awaited.
        asyncio.get_running_loop().call_soon(tasks[0].cancel)
        ends = await asyncio.gather(*tasks, last, return_exceptions=True)
        return [each.text if isinstance(each, Outcome) else type(each) for each in ends]

    assert asyncio.run(run()) == [asyncio.CancelledError, "2", "3"]
    statuses = {event.call.wire_id: event.status for event in tools.session[ToolInvoked].all()}
    assert statuses["c2"] is statuses["c3"] is Status.SUCCEEDED
    assert statuses["c1"] in {Status.CANCELLED, Status.RAISED}


def test_each_call_keeps_the_context_in_which_it_came(tools: Executor) -> None:
    here: ContextVar[int] = ContextVar("here")
    seen: dict[str, int] = {}

    @tool
    async def look(number: int) -> int:
        """Look where it runs."""
        seen[str(number)] = here.get()
        return number

    async def come(turns: Turns, number: int) -> None:
        here.set(number)
        made = ToolCall("look", {"number": number}, id=f"c{number}")
        await turns.dispatch(made, "turn", IDS)

    async def run(turns: Turns) -> None:
        await asyncio.gather(*(come(turns, n) for n in (1, 2, 3)))

    with Host(discover=False, tools=[look]) as host, host.executor() as made:
        asyncio.run(run(Turns(made)))
    assert seen == {"1": 1, "2": 2, "3": 3}


def test_an_id_is_the_same_for_the_same_call_of_a_reply_alone() -> None:
    ids = ["a", "b", "b"]
    assert id_in("r", "a", ids, {"n": 1}) == id_in("r", "a", ids, {"n": 2}) == "r/a"
    assert id_in("s", "a", ids, {"n": 1}) != id_in("r", "a", ids, {"n": 1})
    one, two = (id_in("r", "b", ids, {"n": n}) for n in (1, 2))
    assert one != two
    assert one == id_in("r", "b", ids, {"n": 1})

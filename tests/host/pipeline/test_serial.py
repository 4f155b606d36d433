"""Serial tools: one call at a time, in whatever thread or task, and without deadlock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile_hookspecs import (
    Binding,
    Deadline,
    Outcome,
    PromptEvaluationError,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)

# Only what never comes takes this long.
PATIENCE = 60.0


class Meeting:
    """Two calls that wait until both have what they have, once."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(2)

    def come(self) -> None:
        self._barrier.wait(PATIENCE)


def in_threads(*works: Callable[[], Any]) -> list[Any]:
    results: list[Any] = [None] * len(works)

    def keep(place: int) -> None:
        results[place] = works[place]()

    threads = [
        threading.Thread(target=keep, args=(place,), daemon=True) for place in range(len(works))
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert not any(each.is_alive() for each in threads), "deadlock"
    return results


def serial_calling(name: str, inner: str, meeting: Meeting, told: list[Outcome]) -> Tool[Any, Any]:
    @tool(name=name, concurrency="serial")
    def work(meet: bool, *, context: ToolContext) -> ToolResult[None]:
        """Call another serial tool, once the other call has begun too."""
        if meet:
            meeting.come()
            told.append(context.call(inner, {"meet": False}))
        return ToolResult.ok(message=name)

    return work


def test_serial_calls_on_many_threads_never_overlap(make_yard: Callable[[str], Any]) -> None:
    running, most = [0], [0]

    @tool(concurrency="serial")
    def count(*, context: ToolContext) -> ToolResult[int]:
        """Count one further, alone."""
        running[0] += 1
        most[0] = max(most[0], running[0])
        number = len(context.session[int].all()) + 1
        context.session[int].append(number)
        running[0] -= 1
        return ToolResult.ok(number)

    yard = make_yard("sync")
    tools = yard.open(count)

    told = in_threads(*[lambda: [tools.dispatch(ToolCall("count")) for _ in range(25)]] * 8)

    outcomes = [each for own in told for each in own]
    assert most == [1]
    assert all(each.success and not each.event.reruns for each in outcomes)
    assert sorted(each.result.value for each in outcomes) == list(range(1, 201))
    assert list(yard.session[int].all()) == list(range(1, 201))


def test_serial_calls_on_many_tasks_never_overlap(make_yard: Callable[[str], Any]) -> None:
    running, most = [0], [0]

    @tool(concurrency="serial")
    async def count(*, context: ToolContext) -> ToolResult[int]:
        """Count one further, alone."""
        running[0] += 1
        most[0] = max(most[0], running[0])
        number = len(context.session[int].all()) + 1
        await asyncio.sleep(0)
        context.session[int].append(number)
        running[0] -= 1
        return ToolResult.ok(number)

    yard = make_yard("async")
    tools = yard.open(count)

    async def together() -> list[Outcome]:
        return await asyncio.gather(*(tools.adispatch(ToolCall("count")) for _ in range(50)))

    outcomes = asyncio.run(together())

    assert most == [1]
    assert [each.result.value for each in outcomes] == list(range(1, 51))


def test_a_serial_tool_can_call_itself(yard: Any) -> None:
    @tool(concurrency="serial")
    def down(depth: int, *, context: ToolContext) -> ToolResult[None]:
        """Call itself until it is deep enough."""
        if depth:
            return ToolResult.ok(message=context.call("down", {"depth": depth - 1}).text + "!")
        return ToolResult.ok(message="bottom")

    yard.open(down)

    assert yard.call("down", depth=3).text == "bottom!!!"


def test_serial_tools_that_call_one_another_do_not_deadlock(
    make_yard: Callable[[str], Any],
) -> None:
    meeting, told = Meeting(), list[Outcome]()
    yard = make_yard("sync")
    tools = yard.open(
        serial_calling("left", "right", meeting, told),
        serial_calling("right", "left", meeting, told),
    )

    outcomes = in_threads(
        lambda: tools.dispatch(ToolCall("left", {"meet": True})),
        lambda: tools.dispatch(ToolCall("right", {"meet": True})),
    )

    assert [each.success for each in outcomes] == [True, True]
    assert sorted(each.success for each in told) == [False, True]
    (refused,) = [each for each in told if not each.success]
    assert "waits for this call to " in refused.text
    assert "Internal error" not in refused.text


@dataclass
class Printer:
    """Something that one call at a time has."""

    def begin(self) -> None:
        return None

    def commit(self, savepoint: Any) -> None:
        return None

    def rollback(self, savepoint: Any) -> None:
        return None


def test_a_serial_tool_and_an_exclusive_resource_do_not_deadlock(
    make_yard: Callable[[str], Any],
) -> None:
    meeting = Meeting()
    told: list[str] = []

    @tool(concurrency="serial")
    def alone(meet: bool, *, context: ToolContext) -> ToolResult[None]:
        """Want the printer from the one place there is."""
        if meet:
            meeting.come()
        context.resources.get(Printer)
        return ToolResult.ok()

    @tool
    def print_first(*, context: ToolContext) -> ToolResult[None]:
        """Want the one place from the printer."""
        context.resources.get(Printer)
        meeting.come()
        told.append(context.call("alone", {"meet": False}).text)
        return ToolResult.ok()

    yard = make_yard("sync")
    tools = yard.open(alone, print_first, resources=(Binding.instance(Printer, Printer()),))

    outcomes = in_threads(
        lambda: tools.dispatch(ToolCall("alone", {"meet": True})),
        lambda: tools.dispatch(ToolCall("print_first")),
    )

    texts = [outcomes[0].text, *told]
    assert sum("waits for this call to " in each for each in texts) == 1


def test_waiting_for_a_serial_tool_ends_with_the_deadline(
    make_yard: Callable[[str], Any],
) -> None:
    began, go = threading.Event(), threading.Event()

    @tool(concurrency="serial")
    def hold() -> str:
        """Run for as long as the test wants."""
        began.set()
        go.wait(PATIENCE)
        return "held"

    yard = make_yard("sync")
    tools = yard.open(hold)
    holder = threading.Thread(target=lambda: tools.dispatch(ToolCall("hold")), daemon=True)
    holder.start()
    assert began.wait(PATIENCE)

    with pytest.raises(PromptEvaluationError):
        tools.dispatch(ToolCall("hold", deadline=Deadline.after(0.05)))
    go.set()
    holder.join(PATIENCE)

    assert tools.dispatch(ToolCall("hold")).status is Status.SUCCEEDED
    assert sorted(each.status for each in yard.events) == ["deadline", "succeeded", "succeeded"]


def test_nested_calls_side_by_side_take_turns(yard: Any) -> None:
    at_work: list[int] = []

    @tool(concurrency="serial")
    async def alone() -> int:
        """Tell how many are at work."""
        at_work.append(1)
        await asyncio.sleep(0.01)
        number = len(at_work)
        at_work.pop()
        return number

    @tool
    async def outer(*, context: ToolContext) -> str:
        """Make two calls at once."""
        told = await asyncio.gather(context.acall("alone"), context.acall("alone"))
        return " ".join(each.text for each in told)

    yard.open(alone, outer)

    assert yard.call("outer").text == "1 1"


class Slow:
    """A branchable resource, and its branch, that takes its time to be put back."""

    summary = None

    def __init__(self, told: list[str]) -> None:
        self.resource = self
        self.told = told

    def branch(self, context: ToolContext, parent: object) -> Slow:
        return self

    def prepare(self) -> None: ...
    def commit(self) -> None: ...

    async def rollback(self) -> None:
        await asyncio.sleep(0.05)
        self.told.append("put back")


@pytest.mark.parametrize("uses", [True, False])
def test_the_next_one_waits_until_one_that_was_given_up_is_put_back(
    make_yard: Any, uses: bool
) -> None:
    told: list[str] = []

    @tool(concurrency="serial", timeout=0.05)
    async def work(stays: bool, *, context: ToolContext) -> None:
        """Use something, if it is to stay for long."""
        told.append("begun")
        if stays and uses:
            context.resources.get(Slow)
        await asyncio.sleep(PATIENCE if stays else 0)

    yard = make_yard("async")
    yard.open(work, resources=(Binding.instance(Slow, Slow(told)),))

    async def main() -> list[Outcome]:
        calls = (ToolCall("work", {"stays": stays}) for stays in (True, False))
        return await asyncio.wait_for(asyncio.gather(*map(yard.tools.adispatch, calls)), PATIENCE)

    first, second = asyncio.run(main())
    assert (first.status, second.status) == (Status.TIMED_OUT, Status.SUCCEEDED)
    assert told == ["begun", *(["put back"] if uses else ()), "begun"]

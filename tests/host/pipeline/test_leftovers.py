"""Calls that have ended leave nothing behind in memory."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolstile.pipeline.call import ActiveCall
from toolstile.state.branch import Branch
from toolstile_hookspecs import Status, ToolCall, ToolContext, ToolResult, hookimpl, tool

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def alive() -> Iterator[Callable[[type[Any]], int]]:
    """Count what is left of a type, while the garbage collector tidies up behind nobody."""
    gc.collect()
    gc.disable()
    # What is frozen is not looked at: what there was before may hold on to calls of its own.
    gc.freeze()
    yield lambda kind: sum(isinstance(each, kind) for each in gc.get_objects())
    gc.unfreeze()
    gc.enable()


@tool(timeout=None)
def ping(fail: bool, *, context: ToolContext) -> ToolResult[None]:
    """Answer, or fail."""
    if fail:
        return ToolResult.error("no")
    return ToolResult.ok(message="pong")


@tool
def threaded(fail: bool, *, context: ToolContext) -> ToolResult[None]:
    """Answer, or raise, on a worker thread."""
    if fail:
        raise LookupError
    return ToolResult.ok(message="pong")


@tool
async def aping(fail: bool, *, context: ToolContext) -> ToolResult[None]:
    """Answer, or fail, on a loop."""
    if fail:
        raise LookupError
    return ToolResult.ok(message="pong")


@tool
def outer(fail: bool, *, context: ToolContext) -> ToolResult[None]:
    """Make a nested call."""
    return ToolResult.ok(message=context.call("ping", {"fail": fail}).text)


@tool
async def aouter(fail: bool, *, context: ToolContext) -> ToolResult[None]:
    """Make a nested call."""
    return ToolResult.ok(message=(await context.acall("aping", {"fail": fail})).text)


TOOLS = (ping, threaded, aping, outer, aouter)


@pytest.mark.parametrize("name", [each.name for each in TOOLS])
def test_calls_leave_no_circles_behind(alive: Any, yard: Any, name: str) -> None:
    tools = yard.open(*TOOLS)
    calls = [ToolCall(name, {"fail": index % 3 == 0}) for index in range(2000)]

    async def all_of_them() -> None:
        for call in calls:
            await tools.adispatch(call)

    if yard.driver == "sync":
        for call in calls:
            tools.dispatch(call)
    else:
        asyncio.run(all_of_them())

    # What the worker threads have just done may still be on their stacks.
    assert alive(ActiveCall) < 20
    assert alive(Branch) < 20


class Part:
    """A participant that keeps the context of its call."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context

    def prepare(self) -> None:
        pass

    def commit(self) -> None:
        pass

    def rollback(self) -> None:
        pass


class TakingPart:
    """A plugin that takes part in every call."""

    @hookimpl
    def toolstile_snapshot(self, context: ToolContext) -> Part:
        return Part(context)


@pytest.mark.parametrize("name", ["ping", "outer"])
def test_participants_that_keep_the_context_leave_no_circles_behind(
    alive: Any, yard: Any, name: str
) -> None:
    yard.open(*TOOLS, plugins=(TakingPart(),))

    for index in range(200):
        yard.call(name, fail=index % 3 == 0)

    assert alive(ActiveCall) < 20
    assert alive(Branch) < 20


@pytest.mark.parametrize("name", [each.name for each in TOOLS])
def test_batches_leave_no_circles_behind(alive: Any, yard: Any, name: str) -> None:
    yard.open(*TOOLS)

    outcomes = yard.dispatch_all([ToolCall(name, {"fail": index % 3 == 0}) for index in range(500)])

    assert len(outcomes) == 500
    assert alive(ActiveCall) < 20
    assert alive(Branch) < 20


def test_a_call_is_counted_while_it_runs(alive: Any, yard: Any) -> None:
    found: list[int] = []

    @tool
    def count() -> str:
        """Count the calls there are."""
        found.append(alive(ActiveCall))
        return "counted"

    yard.open(count)

    assert yard.call("count").success
    assert found[0] >= 1


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (ToolCall("pong"), Status.UNKNOWN_TOOL),
        (ToolCall("ping", {}), Status.INVALID),
        (ToolCall("ping", "no JSON"), Status.INVALID),
    ],
)
def test_calls_that_never_run_leave_nothing_behind(
    alive: Any, yard: Any, call: ToolCall, status: Status
) -> None:
    yard.open(*TOOLS)

    outcomes = yard.dispatch_all([call] * 100)

    assert {each.status for each in outcomes} == {status}
    assert alive(ActiveCall) < 20


def test_the_log_keeps_no_frames_of_what_was_raised(yard: Any, touch: Callable[..., None]) -> None:
    @tool
    def fails(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then raise."""
        touch(context)
        raise LookupError

    yard.open(fails)

    error = yard.call("fails").event.error

    assert isinstance(error, LookupError)
    assert error.__traceback__ is None

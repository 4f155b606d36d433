"""Calls that another program carries out end in any order, once, and never raise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator

import pytest

from toolstile import ForeignTool, Host, Outcome, Status, ToolCall
from toolstile_hookspecs import DecisionUnknownError, ExecutorHandle, ForeignCall, hookimpl
from toolstile_plugins.hook.open_calls import OpenCalls, ToolFailed


def place(id_: str, agent: str = "") -> tuple[str, str, str]:
    return "session", agent, id_


def call(**arguments: int) -> ToolCall:
    return ToolCall("look", arguments)


@pytest.fixture
def tools() -> Generator[ExecutorHandle]:
    look = ForeignTool("look", "Look.", {"type": "object"}, timeout=None)
    with Host(discover=False) as host, host.executor(tools=[look]) as tools:
        yield tools


Dispatch = Callable[[ToolCall, ForeignCall], Awaitable[Outcome]]


@pytest.fixture
def dispatch(tools: ExecutorHandle) -> Dispatch:
    return lambda call, run: tools.adispatch(call, using=run)


def test_overlapping_calls_end_in_any_order(dispatch: Dispatch) -> None:
    async def calls() -> list[Outcome | None]:
        kept = OpenCalls()
        for number in range(3):
            begun = await kept.begin(place(str(number)), call(number=number), dispatch)
            assert begun == {"number": number}
        assert len(kept.places()) == 3
        ended = [await kept.end(place(str(number)), number) for number in (1, 2, 0)]
        assert kept.places() == []
        return ended

    ended = asyncio.run(calls())
    assert [each and each.result.value for each in ended] == [1, 2, 0]


def test_a_call_that_is_begun_twice_is_dispatched_once(dispatch: Dispatch) -> None:
    made: list[ToolCall] = []

    def counted(call: ToolCall, run: ForeignCall) -> Awaitable[Outcome]:
        made.append(call)
        return dispatch(call, run)

    async def calls() -> Outcome | None:
        kept = OpenCalls()
        both = [kept.begin(place("1"), call(number=1), counted) for _ in range(2)]
        assert await asyncio.gather(*both) == [{"number": 1}] * 2
        return await kept.end(place("1"), "found")

    ended = asyncio.run(calls())
    assert ended is not None
    assert ended.success
    assert len(made) == 1


def test_an_id_that_is_used_again_ends_the_call_before(dispatch: Dispatch) -> None:
    async def calls() -> Outcome | None:
        kept = OpenCalls()
        await kept.begin(place("1"), call(number=1), dispatch)
        assert await kept.begin(place("1"), call(number=2), dispatch) == {"number": 2}
        return await kept.end(place("1"), "second")

    ended = asyncio.run(calls())
    assert ended is not None
    assert ended.result.value == "second"


def test_a_call_ends_once_and_an_unknown_call_not_at_all(dispatch: Dispatch) -> None:
    async def calls() -> None:
        kept = OpenCalls()
        assert await kept.end(place("never"), 1) is None
        await kept.begin(place("1"), call(number=1), dispatch)
        assert await kept.end(place("1"), 1) is not None
        assert await kept.end(place("1"), 1) is None
        await kept.close([place("1"), place("1"), place("never")])

    asyncio.run(calls())


def test_equal_ids_of_agents_are_different_calls(dispatch: Dispatch) -> None:
    async def calls() -> None:
        kept = OpenCalls()
        for agent in ("", "a1"):
            await kept.begin(place("1", agent), call(number=1), dispatch)
        assert kept.places("session", "a1") == [place("1", "a1")]
        await kept.close(kept.places("session", "a1"))
        assert kept.places("session") == [place("1")]

    asyncio.run(calls())


def test_a_call_without_an_end_is_unknown(dispatch: Dispatch, tools: ExecutorHandle) -> None:
    events: list[Status] = []
    tools.session.dispatcher  # noqa: B018 - it exists

    class Heard:
        @hookimpl
        def toolstile_telemetry(self, event: object) -> None:
            events.append(event.status)  # type: ignore[attr-defined]

    async def calls() -> None:
        kept = OpenCalls()
        await kept.begin(place("1"), call(number=1), dispatch)
        await kept.begin(place("2"), call(number=2), dispatch)
        await kept.close([place("1")], DecisionUnknownError("no end came"))
        await kept.close([place("2")])

    tools._host.register(Heard(), "heard")  # type: ignore[attr-defined]
    asyncio.run(calls())
    assert events == [Status.UNKNOWN, Status.CANCELLED]


@pytest.mark.parametrize(
    ("how", "status"),
    [({"error": ToolFailed("no")}, Status.ERROR), ({"is_cancelled": True}, Status.CANCELLED)],
)
def test_a_failed_or_interrupted_tool(
    dispatch: Dispatch, how: dict[str, object], status: Status
) -> None:
    async def calls() -> Outcome | None:
        kept = OpenCalls()
        await kept.begin(place("1"), call(number=1), dispatch)
        return await kept.end(place("1"), **how)  # type: ignore[arg-type]

    ended = asyncio.run(calls())
    assert ended is not None
    assert ended.status is status


def test_a_hook_that_is_abandoned_while_the_call_is_decided_leaves_no_call() -> None:
    async def calls() -> None:
        kept, cancelled = OpenCalls(), list[bool]()

        async def waits(call: ToolCall, _: ForeignCall) -> Outcome:
            assert call.cancellation is not None
            call.cancellation.on_cancel(lambda: cancelled.append(True))
            await asyncio.sleep(3600)
            raise AssertionError

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(kept.begin(place("1"), call(number=1), waits), 0.05)
        assert cancelled == [True]
        assert kept.places() == []

    asyncio.run(calls())

"""A context that is kept longer than its call lasts can do nothing any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from toolyard_hookspecs import Binding, CallClosed, Tool, ToolCall, ToolContext, tool


@tool
def inner() -> int:
    """Be called by others."""
    return 1


def keeping(kept: list[ToolContext], *, fails: bool, is_async: bool) -> Tool[Any, Any]:
    def end(context: ToolContext) -> None:
        kept.append(context)
        if fails:
            msg = "no"
            raise ValueError(msg)

    def keep(*, context: ToolContext) -> None:
        """Keep the context."""
        end(context)

    async def akeep(*, context: ToolContext) -> None:
        """Keep the context."""
        end(context)

    return tool(name="keep")(akeep if is_async else keep)


async def acall(context: ToolContext) -> Any:
    return await context.acall("inner")


LATER: dict[str, Callable[[ToolContext], Any]] = {
    "call": lambda context: context.call("inner"),
    "acall": lambda context: asyncio.run(acall(context)),
    "progress": lambda context: context.progress(1.0),
    "session": lambda context: context.session[int].latest(),
    "snapshot": lambda context: context.session.snapshot(),
    "resources": lambda context: context.resources.get(int),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("what", LATER)
def test_what_is_done_with_it_is_refused(yard: Any, what: str, fails: bool, is_async: bool) -> None:
    kept: list[ToolContext] = []
    reported: list[Any] = []
    yard.open(
        keeping(kept, fails=fails, is_async=is_async),
        inner,
        resources=(Binding.instance(int, 7),),
        on_progress=lambda *report: reported.append(report),
    )
    assert yard.call("keep").success is not fails

    with pytest.raises(CallClosed):
        LATER[what](kept[0])

    assert reported == []
    assert len(yard.events) == 1


def test_a_nested_call_that_is_not_awaited_keeps_nothing(
    make_yard: Any, mark: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    yard = make_yard("async")
    tasks: list[asyncio.Future[Any]] = []
    go_on = asyncio.Event()

    @tool
    async def late(*, context: ToolContext) -> None:
        """Change something too late."""
        await go_on.wait()
        context.session[mark].append(mark("late"))

    @tool
    async def hasty(*, context: ToolContext) -> None:
        """Call another tool and do not wait for it."""
        context.session[mark].append(mark("kept"))
        tasks.append(asyncio.ensure_future(context.acall("late")))
        await asyncio.sleep(0)

    yard.open(late, hasty)

    async def main() -> None:
        assert (await yard.tools.adispatch(ToolCall("hasty"))).success
        go_on.set()
        outcome = await asyncio.wait_for(tasks[0], 30)
        assert not outcome.success

    asyncio.run(main())

    assert yard.marks == ["kept"]

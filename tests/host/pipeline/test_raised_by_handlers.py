"""A handler that raises what ends a wait, or a generator, from itself."""

import asyncio

import pytest

from toolstile_hookspecs import Stage, Status, ToolCall, ToolContext, hookimpl, tool


class AsyncParticipant:
    """Puts back what it keeps only when it is awaited."""

    def __init__(self, told):
        self.told = told

    async def prepare(self):
        self.told.append("prepare")

    async def commit(self):
        self.told.append("commit")

    async def rollback(self):
        await asyncio.sleep(0)
        self.told.append("rollback")


class Keeping:
    """Takes part in every call."""

    def __init__(self):
        self.told = []

    @hookimpl
    def toolstile_snapshot(self):
        return AsyncParticipant(self.told)


def raising(error, touch, *, is_async, timeout):
    if is_async:

        @tool(timeout=timeout)
        async def araises(*, context: ToolContext) -> None:
            """Change something, then raise."""
            touch(context)
            await asyncio.sleep(0)
            raise error

        return araises

    @tool(name="araises", timeout=timeout)
    def raises(*, context: ToolContext) -> None:
        """Change something, then raise."""
        touch(context)
        raise error

    return raises


KINDS = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
TIMEOUTS = pytest.mark.parametrize("timeout", [None, 30], ids=["endless", "timeout"])


@KINDS
@TIMEOUTS
def test_a_cancellation_that_nobody_asked_for_is_a_failure(yard, touch, is_async, timeout):
    keeping = Keeping()
    error = asyncio.CancelledError()
    yard.open(raising(error, touch, is_async=is_async, timeout=timeout), plugins=(keeping,))
    outcome = yard.call("araises")
    assert (outcome.status, outcome.stage) == (Status.ERROR, Stage.EXECUTE)
    assert outcome.text == (
        "Internal error in araises: a task that it awaited was cancelled, although the call was not"
    )
    assert keeping.told == ["rollback"]
    yard.assert_untouched()


@TIMEOUTS
def test_a_handler_that_cancels_its_own_task_has_failed_or_is_cancelled(make_yard, timeout):
    """On the caller's own task nobody can tell who cancelled it."""

    @tool(timeout=timeout)
    async def cancels() -> None:
        """Cancel what runs it."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    yard = make_yard("async")
    yard.open(cancels)
    if timeout is None:
        with pytest.raises(asyncio.CancelledError):
            yard.call("cancels")
    else:
        assert yard.call("cancels").status is Status.ERROR
    assert [event.status for event in yard.events] == [
        Status.RAISED if timeout is None else Status.ERROR
    ]


@KINDS
@TIMEOUTS
def test_a_batch_goes_on_beside_it(yard, touch, is_async, timeout):
    @tool
    def rings() -> str:
        """Ring."""
        return "rings"

    error = asyncio.CancelledError()
    yard.open(raising(error, touch, is_async=is_async, timeout=timeout), rings)
    outcomes = yard.dispatch_all([ToolCall("araises"), ToolCall("rings")])
    assert [each.status for each in outcomes] == [Status.ERROR, Status.SUCCEEDED]


@TIMEOUTS
def test_a_cancelled_caller_is_cancelled(make_yard, touch, timeout):
    @tool(timeout=timeout)
    async def waits(*, context: ToolContext) -> None:
        """Wait."""
        touch(context)
        await asyncio.sleep(60)

    yard = make_yard("async")
    tools = yard.open(waits)

    async def cancel_it():
        task = asyncio.ensure_future(tools.adispatch(ToolCall("waits")))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_it())
    yard.assert_untouched()
    assert [event.status for event in yard.events] == [Status.RAISED]

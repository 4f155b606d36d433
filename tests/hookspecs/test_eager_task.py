import asyncio
from contextvars import ContextVar

import pytest

from toolstile_hookspecs.support.eager_task import begin

LIMIT = 30
pytestmark = pytest.mark.anyio
name = ContextVar("name", default="outer")


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_what_never_waits_has_ended_at_once():
    async def answer():
        return 42

    task = begin(asyncio.get_running_loop(), answer())
    assert task.done()
    assert task.result() == 42


async def test_what_waits_goes_on_in_the_same_task():
    goes_on = asyncio.Event()

    async def wait():
        before = asyncio.current_task()
        async with asyncio.timeout(LIMIT):
            await goes_on.wait()
        return before, asyncio.current_task()

    task = begin(asyncio.get_running_loop(), wait())
    assert not task.done()
    goes_on.set()
    assert await task == (task, task)


async def test_whoever_begins_it_is_the_current_task_again():
    async def work():
        await asyncio.sleep(0)

    mine = asyncio.current_task()
    task = begin(asyncio.get_running_loop(), work())
    assert asyncio.current_task() is mine
    await task


async def test_what_it_sets_stays_in_its_own_context():
    async def work():
        name.set("inner")
        await asyncio.sleep(0)
        return name.get()

    assert await begin(asyncio.get_running_loop(), work()) == "inner"
    assert name.get() == "outer"


async def test_its_failure_is_its_result():
    async def fail():
        raise ValueError("no")

    task = begin(asyncio.get_running_loop(), fail())
    with pytest.raises(ValueError, match="no"):
        task.result()


async def test_it_can_be_cancelled_while_it_waits():
    ended = asyncio.Event()

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = begin(asyncio.get_running_loop(), wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()

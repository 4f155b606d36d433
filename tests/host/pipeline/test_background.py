"""The loop on which a host runs what is async under the sync driver."""

import asyncio
import threading

from toolstile.drivers.background_loop import Background


def test_closed_it_lets_every_task_tidy_up_though_one_of_them_fails_at_that():
    background = Background()
    begun = threading.Barrier(3)
    tidied = threading.Event()

    async def wait(then):
        asyncio.get_running_loop().run_in_executor(None, begun.wait)
        try:
            await asyncio.sleep(60)
        finally:
            await then()

    async def fail():
        msg = "It cannot tidy up."
        raise ValueError(msg)

    async def tidy():
        await asyncio.sleep(0.1)
        tidied.set()

    for then in (fail, tidy):
        asyncio.run_coroutine_threadsafe(wait(then), background.loop)
    begun.wait(30)
    background.close()
    assert tidied.wait(30)

"""Code knows that it runs on an event loop."""

from __future__ import annotations

import asyncio

from toolstile_hookspecs.support.event_loop import is_on_loop


async def _asked_on_loop() -> bool:
    return is_on_loop()


async def _asked_beside_loop() -> bool:
    return await asyncio.to_thread(is_on_loop)


def test_a_loop_is_told_from_a_thread_without_one() -> None:
    assert not is_on_loop()
    assert asyncio.run(_asked_on_loop())
    assert not asyncio.run(_asked_beside_loop())

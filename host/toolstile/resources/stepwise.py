"""Work whose steps may or may not have to be awaited, written once."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any

Steps = Generator[Awaitable[Any] | None, Any, None]
"""Yields what each step returned: None, or what has to be awaited before the next one."""


def run(steps: Steps) -> Awaitable[None] | None:
    """Take the steps; returns None when done, or the awaitable that does the rest."""
    for step in steps:
        if step is not None:
            return _finish(steps, step)
    return None


async def _finish(steps: Steps, step: Awaitable[Any]) -> None:
    pending: Awaitable[Any] | None = step
    while True:
        failure: BaseException | None = None
        try:
            if pending is not None:
                await pending
        except BaseException as error:  # noqa: BLE001 - the step that it belongs to decides
            failure = error
        try:
            pending = next(steps) if failure is None else steps.throw(failure)
        except StopIteration:
            return

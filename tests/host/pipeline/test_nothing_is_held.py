"""Calls of every kind, nested, timed out, cancelled and failed at random, leave nothing held."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from toolstile.resources.exclusive import lock_of
from toolstile.runtime import runtime_of
from toolstile_hookspecs import (
    Binding,
    Cancellation,
    Deadline,
    PromptEvaluationError,
    Tool,
    ToolCall,
    ToolContext,
    tool,
)

pytestmark = pytest.mark.slow
PATIENCE = 120.0


class InstanceCache:
    """An exclusive resource that knows how deep its savepoints are."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.depth = 0

    def begin(self) -> int:
        self.depth += 1
        return len(self.items)

    def commit(self, savepoint: int) -> None:
        self.depth -= 1

    def rollback(self, savepoint: int) -> None:
        self.depth -= 1
        del self.items[savepoint:]


class First(InstanceCache):
    pass


class Second(InstanceCache):
    pass


class Chance:
    """The next steps of handlers: mostly little, sometimes too much."""

    def __init__(self, seed: int, mark: type[Any]) -> None:
        self.random = random.Random(seed)
        self.mark = mark
        self.tools = [
            self._make(is_async, concurrency, timeout, contained)
            for is_async in (False, True)
            for concurrency in ("parallel", "serial")
            for timeout in (None, 0.01, 5.0)
            for contained in (False, True)
        ]

    def call(self) -> ToolCall:
        cancellation = Cancellation() if self.random.random() < 0.3 else None
        if cancellation is not None:
            threading.Timer(self.pause(), cancellation.cancel).start()
        deadline = None
        if self.random.random() < 0.2:
            deadline = Deadline.after(self.random.choice([0.005, 0.05, 5.0]))
        return ToolCall(self.name(), {}, cancellation=cancellation, deadline=deadline)

    def calls(self) -> list[ToolCall]:
        return [self.call() for _ in range(self.random.choice([1, 1, 3]))]

    def name(self) -> str:
        return self.random.choice(self.tools).name

    def pause(self) -> float:
        return self.random.choice([0.0, 0.0, 0.001, 0.004, 0.02])

    def deeds(self, depth: int) -> list[str]:
        deeds = ["bump", "first", "second", "pause", *(["nest"] if depth < 2 else [])]
        return [self.random.choice(deeds) for _ in range(self.random.randint(0, 3))]

    def end(self) -> None:
        if self.random.random() < 0.3:
            msg = "by chance"
            raise ValueError(msg)

    def bump(self, context: ToolContext) -> None:
        marks = context.session[self.mark]
        marks.append(self.mark(str(len(marks.all()))))

    def work(self, depth: int, context: ToolContext) -> None:
        for deed in self.deeds(depth):
            if deed == "bump":
                self.bump(context)
            elif deed == "pause":
                time.sleep(self.pause())
            elif deed == "nest":
                context.call(self.name(), {"depth": depth + 1})
            else:
                context.resources.get(First if deed == "first" else Second).items.append("x")
        self.end()

    async def awork(self, depth: int, context: ToolContext) -> None:
        for deed in self.deeds(depth):
            if deed == "bump":
                self.bump(context)
            elif deed == "pause":
                await asyncio.sleep(self.pause())
            elif deed == "nest":
                names = [self.name() for _ in range(self.random.choice([1, 2]))]
                nested = (context.acall(name, {"depth": depth + 1}) for name in names)
                await asyncio.gather(*nested)
            else:
                shelf = await context.resources.aget(First if deed == "first" else Second)
                shelf.items.append("x")
        self.end()

    def _make(
        self, is_async: bool, concurrency: Any, timeout: float | None, contained: bool
    ) -> Tool[Any, Any]:
        def work(depth: int = 0, *, context: ToolContext) -> None:
            self.work(depth, context)

        async def awork(depth: int = 0, *, context: ToolContext) -> None:
            await self.awork(depth, context)

        parts = ["async" if is_async else "sync", concurrency, f"{timeout}".replace(".", "_")]
        name = "-".join([*parts, "contained" if contained else "open"]).lower()
        options: Any = {"concurrency": concurrency, "timeout": timeout, "contained": contained}
        make = tool(name=name, description="Do this and that.", **options)
        return make(awork if is_async else work)


def dispatch(yard: Any, chance: Chance) -> None:
    for _ in range(20):
        calls = chance.calls()
        try:
            yard.tools.dispatch_all(calls) if len(calls) > 1 else yard.tools.dispatch(calls[0])
        except PromptEvaluationError:
            continue


async def adispatch(yard: Any, chance: Chance) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(20):
        calls = chance.calls()
        made = yard.tools.adispatch_all(calls)
        task = asyncio.ensure_future(made if len(calls) > 1 else yard.tools.adispatch(calls[0]))
        if chance.random.random() < 0.2:
            loop.call_later(chance.pause(), task.cancel)
        if len(calls) == 1:
            made.close()
        try:
            await task
        except (PromptEvaluationError, asyncio.CancelledError):
            continue


async def gathered(yard: Any, chance: Chance) -> None:
    await asyncio.gather(*(adispatch(yard, chance) for _ in range(4)))


@pytest.mark.parametrize("seed", range(12))
def test_everything_is_free_when_all_have_ended(yard: Any, mark: type[Any], seed: int) -> None:
    chance = Chance(seed, mark)
    shelves = (First(), Second())
    yard.open(
        *chance.tools,
        resources=tuple(Binding.instance(type(shelf), shelf) for shelf in shelves),
    )
    locks = [lock_of(shelf) for shelf in shelves]

    def run(work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    if yard.driver == "sync":
        threads = [run(lambda: dispatch(yard, chance)) for _ in range(4)]
    else:
        threads = [run(lambda: asyncio.run(gathered(yard, chance)))]
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()

    def held() -> list[Any]:
        runtime = runtime_of(yard.session)
        serial = [lock for lock in yard.host.engine._serial.values() if lock.claims]
        taken = [lock.name for lock in [*locks, *serial] if lock.claims]
        open_savepoints = [shelf for shelf in shelves if shelf.depth]
        return [*runtime.inflight, *taken, *open_savepoints, *filter(None, [runtime.turns.holder])]

    end = time.monotonic() + PATIENCE
    while held() and time.monotonic() < end:
        time.sleep(0.01)
    assert held() == []
    texts = yard.marks
    assert texts == [str(number) for number in range(len(texts))]

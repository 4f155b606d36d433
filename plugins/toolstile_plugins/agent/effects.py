"""Effects, for which the loop asks, and their two drivers: on a thread, and on an event loop.

The loop is a generator. It yields effects, and is sent what they come to.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from toolstile_hookspecs import ExecutorHandle, Outcome, ToolCall
from toolstile_hookspecs.approval import GivenAnswer

T = TypeVar("T")


class Effect(Protocol):
    """One thing to do, either way."""

    def perform(self) -> Any:
        """Do it on the calling thread."""
        ...

    async def aperform(self) -> Any:
        """Do it on the event loop."""
        ...


Loop = Generator[Effect, Any, T]
"""A part of the loop: what it asks for, what it is sent for that, what it returns."""


def drive(loop: Loop[T]) -> T:
    """Run a loop to its end on this thread and return what it returns."""
    try:
        effect = next(loop)
        while True:
            try:
                answer = effect.perform()
            except BaseException as error:  # noqa: BLE001 - the loop decides
                effect = loop.throw(error)
            else:
                effect = loop.send(answer)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def adrive(loop: Loop[T]) -> T:
    """Run a loop to its end on the event loop; see `drive`."""
    try:
        effect = next(loop)
        while True:
            try:
                answer = await effect.aperform()
            except BaseException as error:  # noqa: BLE001 - the loop decides
                effect = loop.throw(error)
            else:
                effect = loop.send(answer)
    except StopIteration as stop:
        value: T = stop.value
        return value


@dataclass(frozen=True, slots=True)
class Carry:
    """Carry out the calls of one reply, as one batch; gives outcomes in their order."""

    tools: ExecutorHandle
    calls: Sequence[ToolCall]

    def perform(self) -> list[Outcome | BaseException]:
        """Dispatch them all."""
        return self.tools.dispatch_all(self.calls)

    async def aperform(self) -> list[Outcome | BaseException]:
        """Dispatch them all on the event loop."""
        return await self.tools.adispatch_all(self.calls)


@dataclass(frozen=True, slots=True)
class Resume:
    """Carry out a call that waited for a person, with the answer."""

    tools: ExecutorHandle
    call: ToolCall
    token: str
    answer: GivenAnswer

    def perform(self) -> Outcome:
        """Resume it."""
        return self.tools.resume(self.call, self.token, self.answer)

    async def aperform(self) -> Outcome:
        """Resume it on the event loop."""
        return await self.tools.aresume(self.call, self.token, self.answer)


@dataclass(frozen=True, slots=True)
class Consult:
    """Call a function of the application's or of a plugin's, sync or async."""

    function: Callable[[], Any]

    def perform(self) -> Any:
        """Call it; one that is async runs on an event loop of its own."""
        import asyncio  # heavy, and only here

        answer = self.function()
        if not inspect.isawaitable(answer):
            return answer

        async def awaited() -> Any:
            return await answer

        return asyncio.run(awaited())

    async def aperform(self) -> Any:
        """Call it on a thread, or await it here."""
        import asyncio  # heavy, and only here

        if inspect.iscoroutinefunction(self.function):
            return await self.function()
        answer = await asyncio.to_thread(self.function)
        return await answer if inspect.isawaitable(answer) else answer

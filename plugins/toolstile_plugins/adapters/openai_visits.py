"""Calls between the moment at which OpenAI's SDK asks about them and that at which it runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

from toolstile_hookspecs import ForeignCall, Outcome, Status, ToolContext
from toolstile_hookspecs.support.eager_task import begin
from toolstile_plugins.adapters.foreign import ForeignPause


class Visit:
    """A call between the moment at which the SDK asks about it and that at which it runs it.

    Attributes:
        using: Runs a tool of theirs.
        is_over: Whether the SDK has the outcome.
    """

    using: ForeignCall | None = None

    def __init__(self) -> None:
        self.is_over = False
        self._outcome: Outcome | None = None
        self._error: Exception | None = None

    @property
    def question(self) -> Outcome | None:
        """The outcome of a call that waits for a person."""
        outcome = self._outcome
        return outcome if outcome is not None and outcome.status is Status.PENDING else None

    async def begin(self, dispatched: Coroutine[Any, Any, Outcome]) -> None:
        """Carry the call on until it is known whether it waits for a person."""
        try:
            self._outcome = await dispatched
        except Exception as error:  # noqa: BLE001 - raised where the SDK runs the tool
            self._error = error

    async def end(self, using: ForeignCall | None) -> Outcome:
        """Return the outcome, now that the SDK runs the tool."""
        del using
        self.is_over = True
        if self._outcome is None:
            raise self._error or RuntimeError
        return self._outcome


class HeldVisit(Visit):
    """A call of a tool of theirs, which is held until the SDK runs it."""

    def __init__(self) -> None:
        super().__init__()
        self.using = self._run
        self._loop = asyncio.get_running_loop()
        self._known: asyncio.Future[None] = self._loop.create_future()
        self._entered: asyncio.Future[ForeignCall] = self._loop.create_future()

    @property
    def is_held(self) -> bool:
        """True while the tool of theirs is about to run."""
        return not self._task.done()

    async def begin(self, dispatched: Coroutine[Any, Any, Outcome]) -> None:
        """Carry the call on in a task of its own until it waits, or holds its tool back."""
        self._task = begin(self._loop, super().begin(dispatched))
        self._task.add_done_callback(self._tell)
        if (asker := asyncio.current_task()) is not None:
            # Where the SDK does not come to run the tool, nobody else ends the call.
            asker.add_done_callback(self._stop)
        try:
            await self._known
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise

    async def end(self, using: ForeignCall | None) -> Outcome:
        """Let the tool run; return the outcome."""
        if using is not None and not self._entered.done():
            self._entered.set_result(using)
        await self._task
        return await super().end(using)

    async def leave(self) -> None:
        """Roll the call back: the tool asks by a rule of its own, and its call is made later."""

        async def pause(_: dict[str, Any], __: ToolContext) -> Any:
            raise ForeignPause

        with suppress(ForeignPause):
            await self.end(pause)

    async def _run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        self._tell()
        return await (await self._entered)(arguments, context)

    def _tell(self, _: object = None) -> None:
        if not self._known.done():
            self._known.set_result(None)

    def _stop(self, _: object) -> None:
        self._task.cancel()


VISITS: Final[ContextVar[Mapping[str, Visit]]] = ContextVar(
    "toolstile_visits", default=MappingProxyType({})
)
"""The visits by the ids of their calls; the task that runs a tool inherits those of its asker."""


def visit_of(call_id: str) -> Visit | None:
    """Return the visit of a call that the SDK has asked about and not run yet, or None."""
    visit = VISITS.get().get(call_id)
    return None if visit is None or visit.is_over else visit

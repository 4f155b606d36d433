"""Calls that another program carries out: each begins at one of its events, and ends at another.

Between the two events the program runs its tool: that is the handler of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from toolstile_hookspecs import Cancellation, ForeignCall, Outcome, ToolCall, ToolContext
from toolstile_plugins.hook.agents import Event, Place

Dispatch = Callable[[ToolCall, ForeignCall], Awaitable[Outcome]]


class ToolFailed(Exception):
    """A tool of the other program has failed; the model reads the error of the tool."""


class _OpenCall:
    """A call, and as its handler `run`, which ends when the result arrives."""

    def __init__(self, call: ToolCall, dispatch: Dispatch) -> None:
        loop = asyncio.get_running_loop()
        self.id, self.arguments = call.id, call.arguments
        self.admitted: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.result: asyncio.Future[Any] = loop.create_future()
        self.cancellation = Cancellation()
        call = replace(call, cancellation=self.cancellation)
        self.outcome = asyncio.ensure_future(dispatch(call, self.run))

    async def run(self, arguments: dict[str, Any], _: ToolContext) -> Any:
        if not self.admitted.done():  # a call that met a conflict runs again
            self.admitted.set_result(arguments)
        return await asyncio.shield(self.result)


class OpenCalls:
    """The calls that have begun and not ended, by their places."""

    def __init__(self) -> None:
        self._open: dict[Place, _OpenCall] = {}

    async def begin(
        self, place: Place, call: ToolCall, dispatch: Dispatch
    ) -> dict[str, Any] | Outcome:
        """Dispatch a call; return its arguments once it may run, else its outcome.

        An exception of the dispatch is raised. If a second hook begins the same call, both get the
        same answer.
        """
        open_ = self._open.get(place)
        if open_ is not None and open_.arguments != call.arguments:
            await self.close([place])
            open_ = None
        if open_ is None:
            open_ = self._open[place] = _OpenCall(call, dispatch)
        try:
            either = (open_.outcome, open_.admitted)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not open_.outcome.done():
                return open_.admitted.result()
        except asyncio.CancelledError:
            open_.cancellation.cancel()
            self._forget(place, open_)
            raise
        self._forget(place, open_)
        return open_.outcome.result()

    def _forget(self, place: Place, open_: _OpenCall) -> None:
        if self._open.get(place) is open_:
            del self._open[place]

    async def end(
        self,
        place: Place,
        result: Any = None,
        *,
        error: Exception | None = None,
        is_cancelled: bool = False,
    ) -> Outcome | None:
        """End a call with its result or error; return its outcome, None if no such call runs."""
        open_ = self._open.get(place)
        if open_ is None or not open_.admitted.done():
            return None
        del self._open[place]
        if is_cancelled:
            open_.cancellation.cancel()
        elif error is None:
            open_.result.set_result(result)
        else:
            open_.result.set_exception(error)
        await asyncio.wait([open_.outcome])
        return open_.outcome.result()

    async def close(self, places: Iterable[Place], error: Exception | None = None) -> None:
        """End calls without a result: cancelled, or with an error if they run."""
        left = [self._open.pop(place) for place in {*places} if place in self._open]
        for open_ in left:
            if error is not None and open_.admitted.done():
                open_.result.set_exception(error)
            else:
                open_.cancellation.cancel()
        await asyncio.gather(*(open_.outcome for open_ in left), return_exceptions=True)

    def move(self, place: Place, to: Place) -> None:
        """Have a call end at another place."""
        self._open[to] = self._open.pop(place)

    def id_at(self, place: Place) -> str:
        """Return the id of the open call at a place, empty if there is none."""
        return self._open[place].id if place in self._open else ""

    def left_at(self, event: Event) -> list[Place]:
        """Return the places of the calls that an event ends: they will not be reported any more."""
        if event.kind == "batch":
            return [(event.session, event.agent, id_) for id_ in event.ids]
        if event.kind in {"end", "stop"}:
            return self.places(event.session, event.agent)
        return self.places(event.session) if event.kind == "gone" else []

    def places(self, *whose: str) -> list[Place]:
        """Return the places of the open calls: of all, of a session, or of an agent in it."""
        return [place for place in self._open if place[: len(whose)] == whose]

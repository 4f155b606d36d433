"""The turns of a foreign agent: calls of one turn are one batch, though they come one by one."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Coroutine, Hashable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

from toolstile_hookspecs import Cancellation, ExecutorHandle, ForeignCall, Outcome, ToolCall

PASSES: Final = 16
"""The passes of the event loop without another call after which a turn begins."""
MAX_TURNS: Final = 256
"""The maximum number of turns that are remembered, so that a repeated call is a single one."""

_Carried = Coroutine[Any, Any, Outcome]


def id_in(reply: str, call_id: str, ids: Sequence[str], arguments: object) -> str:
    """Return an id for a call of a reply that is the same when the framework makes the call again.

    A model may use an id in several replies, and for several calls of one reply, whose `ids` tell.
    """
    if ids.count(call_id) <= 1:
        return f"{reply}/{call_id}"
    written = json.dumps(arguments, sort_keys=True, default=str)
    return f"{reply}/{call_id}/{sha256(written.encode()).hexdigest()[:16]}"


class Turns:
    """Gathers the calls of a turn into one batch, by the ids of the turn's calls.

    A framework starts the calls of a turn side by side, each in another task. The batch begins
    when all of them have arrived. If the framework has answered a call otherwise, it never
    arrives: the batch begins without it after `PASSES` passes of the event loop without another
    call. A call that arrives later is dispatched by itself.

    Each call runs in the task that made it, with the context and the end of this task.
    """

    def __init__(self, tools: ExecutorHandle) -> None:
        self._tools = tools
        self._turns: OrderedDict[Hashable, _Turn] = OrderedDict()

    async def dispatch(
        self, call: ToolCall, turn: Hashable, ids: Sequence[str], using: ForeignCall | None = None
    ) -> Outcome:
        """Dispatch a call with the others of its turn.

        `turn` identifies the turn, such as the ids of the run and its step; `ids` has the ids of
        the turn's calls that are expected here, in call order.
        """
        is_one_of_many = len(ids) > 1 and len({*ids}) == len(ids) and call.wire_id in ids
        if not is_one_of_many:
            return await self._tools.adispatch(call, using=using)
        loop = asyncio.get_running_loop()
        key = (id(loop), turn, *ids)
        gathered = self._turns.get(key)
        if gathered is None:
            gathered = self._turns[key] = _Turn(self._tools, ids, loop)
            if len(self._turns) > MAX_TURNS:
                self._turns.popitem(last=False)
        if gathered.begun or call.wire_id in gathered.come:
            return await self._tools.adispatch(call, using=using)
        # A call whose task has ended before the batch began is cancelled by this.
        stop = call.cancellation or Cancellation()
        came = gathered.add(replace(call, cancellation=stop), using)
        try:
            carried = await came
        except asyncio.CancelledError:
            if not came.cancelled():
                stop.cancel()
                await came.result()
            raise
        return await carried


@dataclass
class _Turn:
    tools: ExecutorHandle
    ids: Sequence[str]
    loop: asyncio.AbstractEventLoop
    begun: bool = False
    come: dict[str, tuple[ToolCall, ForeignCall | None, asyncio.Future[_Carried]]] = field(
        default_factory=dict[str, tuple[ToolCall, ForeignCall | None, "asyncio.Future[_Carried]"]]
    )

    def add(self, call: ToolCall, using: ForeignCall | None) -> asyncio.Future[_Carried]:
        """Add a call; return the future of its coroutine, set when the batch begins."""
        future: asyncio.Future[_Carried] = self.loop.create_future()
        self.come[call.wire_id] = (call, using, future)
        if len(self.come) == len(self.ids):
            self._begin()
        elif len(self.come) == 1:
            self._watch(1, PASSES)
        return future

    def _watch(self, seen: int, passes: int) -> None:
        """Begin after a few passes of the loop without another call."""
        if self.begun:
            return
        if len(self.come) > seen:
            seen, passes = len(self.come), PASSES
        if passes == 0:
            self._begin()
        else:
            self.loop.call_soon(self._watch, seen, passes - 1)

    def _begin(self) -> None:
        self.begun = True
        there = [self.come[id_] for id_ in self.ids if id_ in self.come]
        waiting = [entry for entry in there if not entry[2].cancelled()]
        calls = [call for call, _, _ in waiting]
        carried = self.tools.adispatch_each(calls, using=[using for _, using, _ in waiting])
        for (_, _, future), each in zip(waiting, carried, strict=True):
            future.set_result(each)
        self.come.clear()

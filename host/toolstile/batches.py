"""Batches: calls that are dispatched together, in their order."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any

from toolstile.drivers.async_driver import AsyncDriver
from toolstile.drivers.job import Step
from toolstile.pipeline.approval import read_answer
from toolstile.pipeline.batch import BatchOrder
from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.cards import Card, life_in_turn
from toolstile.pipeline.environment import Environment, Resumption
from toolstile.pipeline.stages import life_of
from toolstile_hookspecs import Outcome, ToolCall, ToolstileError, TurnApprover
from toolstile_hookspecs.execution.options import BatchArguments


def batch_of(
    executor: Environment, calls: Iterable[ToolCall], more: BatchArguments, *, on_loop: bool
) -> list[ActiveCall]:
    """Return the calls of a batch, each with the callable that runs it, if one is given.

    Raises:
        ValueError: When `using` has not one callable, or None, for each call.
    """
    made, using = list(calls), more.get("using") or ()
    resumed = {
        id_: Resumption(token, read_answer(answer), changes)
        for id_, (token, answer, changes) in more.get("resumed", {}).items()
    }
    if using and len(using) != len(made):
        raise ValueError(
            f"`using` has {len(using)} entries for {len(made)} calls; give one callable, or None, "
            "for each call, in their order"
        )
    resumptions: list[Resumption | None] = [None] * len(made)
    if resumed:
        # Callers need not be type-checked: `ActiveCall` refuses all else.
        resumptions = [resumed.get(getattr(call, "id", "")) for call in made]
    # Because calls that a person has seen on one card are kept together, or asked about together.
    is_turn = any(resumptions) and isinstance(executor.approver, TurnApprover)
    card = Card(len(made)) if executor.asks_by_turn or is_turn else None
    order = BatchOrder(len(made), card)
    active = [
        ActiveCall(
            executor,
            call,
            batch=order,
            index=index,
            on_loop=on_loop,
            resumption=resumption,
            using=given,
        )
        for index, (call, given, resumption) in enumerate(
            zip(made, using or [None] * len(made), resumptions, strict=True)
        )
    ]
    if card is not None:
        card.calls = active
    return active


def lives_of(
    calls: list[ActiveCall],
) -> tuple[list[Generator[Step, Any, Outcome]], Callable[[int], None]]:
    """Return the pipelines of a batch, and the function that ends one which never began."""

    def end(index: int) -> None:
        if not calls[index].ended:
            calls[index].end()

    lives = [life_of(call) for call in calls]
    if calls and calls[0].batch is not None and calls[0].batch.card is not None:
        lives = [life_in_turn(*each) for each in zip(calls, lives, strict=True)]
    return lives, end


def each_where_awaited(
    calls: list[ActiveCall], driver: AsyncDriver
) -> list[Coroutine[Any, Any, Outcome]]:
    """Return a batch as coroutines, each of which carries its call out in the task it runs in."""
    lives, end = lives_of(calls)

    async def carry_out(index: int) -> Outcome:
        try:
            return await driver.drive(lives[index])
        finally:
            end(index)

    return [carry_out(index) for index in range(len(calls))]


def in_place(
    calls: list[ActiveCall], ended: list[Outcome | BaseException]
) -> list[Outcome | BaseException]:
    """Return the ends of a batch; an exception that is one's own stands in its place."""
    for call, end in zip(calls, ended, strict=True):
        if isinstance(end, ToolstileError):
            end.call = call.call_made
        elif isinstance(end, BaseException) and not isinstance(end, Exception):
            raise end
    return ended

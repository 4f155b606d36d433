"""Turns are taken in order, and nobody who has left the queue is waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolstile.pipeline.batch import BatchOrder, CommitQueue, Milestone
from toolstile.resources.exclusive import OneShotGate
from toolstile.runtime import runtime_of
from toolstile_hookspecs import (
    Cancellation,
    Stage,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)

# Only what never comes takes this long.
PATIENCE = 60.0


def test_a_gate_lets_everyone_through_once_it_is_open() -> None:
    told: list[str] = []
    gate = OneShotGate()
    gate.on_grant(lambda: told.append("early"))
    assert (gate.granted, told) == (False, [])

    gate.open()
    gate.open()
    gate.on_grant(lambda: told.append("late"))

    assert (gate.granted, told) == (True, ["early", "late"])


class InterruptedOnce:
    """Hears that a gate is open, which Ctrl-C interrupts the first time."""

    def __init__(self) -> None:
        self.heard = 0

    def __call__(self) -> None:
        self.heard += 1
        if self.heard == 1:
            raise KeyboardInterrupt


def test_opening_a_gate_that_was_interrupted_lets_the_others_through() -> None:
    told: list[str] = []
    gate = OneShotGate()
    gate.on_grant(InterruptedOnce())
    gate.on_grant(lambda: told.append("second"))
    with pytest.raises(KeyboardInterrupt):
        gate.open()

    gate.open()

    assert told == ["second"]


def test_a_turn_whose_giving_back_was_interrupted_is_the_next_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = CommitQueue()
    turns.take("first")
    gates = [turns.take(each) for each in ("second", "third")]
    with monkeypatch.context() as patched:
        patched.setattr(OneShotGate, "open", lambda _: InterruptedOnce()())
        with pytest.raises(KeyboardInterrupt):
            turns.give_back("first")

    turns.give_back("first")

    assert turns.holder == "second"
    assert [gate is not None and gate.granted for gate in gates] == [True, False]


def test_a_batch_goes_on_where_noting_that_a_call_has_passed_was_interrupted() -> None:
    batch = BatchOrder(2)
    batch.before(Milestone.ENDED, 1).on_grant(InterruptedOnce())
    every = batch.after_all(Milestone.ENDED)
    batch.passed(Milestone.ENDED, 1)
    with pytest.raises(KeyboardInterrupt):
        batch.passed(Milestone.ENDED, 0)

    batch.passed(Milestone.ENDED, 0)

    assert every.granted


@given(st.lists(st.tuples(st.sampled_from(["take", "give back"]), st.integers(0, 5))))
def test_turns_are_taken_first_come_first_served(moves: list[tuple[str, int]]) -> None:
    turns = CommitQueue()
    queue: list[int] = []
    gates: dict[int, OneShotGate | None] = {}
    for what, holder in moves:
        if what == "give back":
            turns.give_back(holder)
            if holder in queue:
                queue.remove(holder)
        elif holder not in queue:
            queue.append(holder)
            gates[holder] = turns.take(holder)
        for place, each in enumerate(queue):
            gate = gates[each]
            assert (gate is None or gate.granted) is (place == 0)


def in_a_thread(work: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


class Holding:
    """Keeps the commit turn of its first call until it is let go."""

    def __init__(self) -> None:
        self.there = threading.Event()
        self.go = threading.Event()

    @hookimpl
    def toolstile_on_result(self, tool: Tool[Any, Any]) -> None:
        if tool.name == "first":
            self.there.set()
            assert self.go.wait(PATIENCE)


def test_a_call_that_is_cancelled_while_it_waits_for_its_turn_holds_up_nobody(
    yard: Any, mark: Any
) -> None:
    def marking(name: str) -> Tool[Any, Any]:
        @tool(name=name)
        def marks(*, context: ToolContext) -> None:
            """Change something."""
            context.session[mark].append(mark(name))

        return marks

    holding, stop = Holding(), Cancellation()
    yard.open(marking("first"), marking("second"), marking("third"), plugins=(holding,))
    turns = runtime_of(yard.session).turns

    first = in_a_thread(lambda: yard.call("first"))
    assert holding.there.wait(PATIENCE)
    second = in_a_thread(lambda: yard.dispatch(ToolCall("second", cancellation=stop)))
    ends = time.monotonic() + PATIENCE
    while len(turns._queue) < 2:
        assert time.monotonic() < ends, "the second call never waits for its turn"
        time.sleep(0.001)
    stop.cancel()
    outcome = second.result(PATIENCE)
    third = in_a_thread(lambda: yard.call("third"))
    holding.go.set()

    assert (outcome.status, outcome.stage) == (Status.CANCELLED, Stage.RENDER)
    assert first.result(PATIENCE).success
    assert third.result(PATIENCE).success
    assert yard.marks == ["first", "third"]

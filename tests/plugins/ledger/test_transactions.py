"""Equal keyed calls of a transaction: they run beside one another, or in two transactions."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from toolstile import Executor
from toolstile_hookspecs import IdempotencyConfig, Status, ToolCall, tool

from .conftest import Bench


def equal(number: int = 2) -> list[ToolCall]:
    return [ToolCall("pay", {"text": "a"}) for _ in range(number)]


def run(bench: Bench, work: Executor, calls: list[ToolCall]) -> list[Any]:
    if bench.driver == "sync":
        return work.dispatch_all(calls)
    return asyncio.run(work.adispatch_all(calls))


@pytest.fixture(params=["contained", "undo"])
def ran(bench: Bench, request: pytest.FixtureRequest) -> list[str]:
    """Offer a keyed tool, and note the runs of its handler."""
    ran: list[str] = []
    parts: dict[str, Any] = {"contained": True}
    if request.param == "undo":
        parts = {"undo": lambda params, result, key, context: None}

    @tool(idempotency=IdempotencyConfig(), **parts)
    def pay(text: str) -> str:
        """Pay."""
        ran.append(text)
        time.sleep(0.05)
        return f"{text} is paid as number {len(ran)}"

    bench.open(pay)
    return ran


def test_a_batch_of_a_transaction_has_each_effect_once(bench: Bench, ran: list[str]) -> None:
    with bench.tools.transaction("trip") as work:
        outcomes = run(bench, work, equal(3))
    assert [each.text for each in outcomes] == ["a is paid as number 1"] * 3
    assert [each.event.replayed for each in outcomes] == [False, True, True]
    assert ran == ["a"]
    assert bench.states() == ["done"]


def test_a_call_does_not_wait_for_the_end_of_another_transaction(
    bench: Bench, ran: list[str]
) -> None:
    with bench.tools.transaction("one") as one, bench.tools.transaction("two") as two:
        (first,) = run(bench, one, equal(1))
        began = time.monotonic()
        (second,) = run(bench, two, equal(1))
        assert time.monotonic() - began < 2
    assert (first.success, second.status) == (True, Status.ERROR)
    assert "is already in progress" in second.text
    assert ran == ["a"]

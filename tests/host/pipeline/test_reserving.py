"""Policies that count calls as they are admitted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from toolstile_hookspecs import (
    ApprovalAnswer,
    PolicyDecision,
    PolicyState,
    Stage,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)

# Only what never comes takes this long.
PATIENCE = 60.0


class Counting:
    """Counts the calls it admits, up to a limit."""

    def __init__(self, name: str, limit: int = 1000) -> None:
        self.name = name
        self.limit = limit
        self.asked = 0

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None

    def reserve(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        self.asked += 1
        record = PolicyState.reserved(context, self.name)
        used = record.data.get("used", 0)
        if used >= self.limit:
            return PolicyDecision.deny(f"{self.name} has no place left. It cannot be called.")
        replace(record, data={"used": used + 1}).save(context)
        return PolicyDecision.allow()


class Failing(Counting):
    """Saves, then raises."""

    def reserve(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        super().reserve(tool, params, context=context)
        msg = "out of order"
        raise RuntimeError(msg)


class OneAtATime(Counting):
    """Admits a call only when no other is in flight."""

    def reserve(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        if any(each.tool_name == tool.name for each in context.inflight):
            return PolicyDecision.deny(f"{tool.name} is running. Wait for it, then retry.")
        return PolicyDecision.allow()


def used(yard: Any) -> dict[str, int]:
    return {each.policy_name: each.data["used"] for each in yard.session[PolicyState].all()}


@tool
def ping() -> str:
    """Answer."""
    return "pong"


@tool
def fail(*, context: ToolContext) -> ToolResult[None]:
    """Fail."""
    return ToolResult.error("no")


def test_a_reservation_is_kept_when_the_call_fails(yard: Any) -> None:
    yard.open(fail, policies=(Counting("quota", limit=2),))

    statuses = [yard.call("fail").status for _ in range(3)]

    assert statuses == [Status.FAILED, Status.FAILED, Status.DENIED]
    assert used(yard) == {"quota/reserved": 2}


@pytest.mark.parametrize("order", [0, 1])
def test_one_refusal_undoes_what_the_others_reserved(yard: Any, order: int) -> None:
    first, last = Counting("first"), Counting("last", limit=0)
    policies = [last]
    policies.insert(order, first)
    yard.open(ping, policies=tuple(policies))

    outcome = yard.call("ping")

    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.RESERVE)
    assert outcome.text == "last has no place left. It cannot be called."
    assert used(yard) == {}


def test_a_policy_that_fails_to_reserve_denies_and_undoes_all(yard: Any) -> None:
    yard.open(ping, policies=(Counting("first"), Failing("broken")))

    outcome = yard.call("ping")

    assert outcome.status is Status.DENIED
    assert "broken" in outcome.text
    assert "out of order" not in outcome.text
    assert used(yard) == {}


class Interrupting(Counting):
    """Saves, then is interrupted."""

    def reserve(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        super().reserve(tool, params, context=context)
        raise SystemExit(3)


def test_an_interruption_undoes_what_was_reserved(yard: Any) -> None:
    yard.open(ping, policies=(Counting("first"), Interrupting("last")))

    with pytest.raises(SystemExit):
        yard.call("ping")

    assert used(yard) == {}
    assert len(yard.events) == 1


def test_a_refusal_undoes_only_its_own_calls_reservations(yard: Any) -> None:
    yard.open(ping, policies=(Counting("first"), Counting("last", limit=2)))

    statuses = [yard.call("ping").status for _ in range(4)]

    assert statuses == [Status.SUCCEEDED] * 2 + [Status.DENIED] * 2
    assert used(yard) == {"first/reserved": 2, "last/reserved": 2}


def test_a_denied_call_is_not_told_to_have_been_rolled_back(yard: Any) -> None:
    yard.open(ping, policies=(Counting("none", limit=0),))

    outcome = yard.call("ping")

    assert not outcome.event.rolled_back
    assert yard.observer.rollbacks == []


def test_a_call_that_runs_again_reserves_once(yard: Any, mark: type[Any]) -> None:
    policy = Counting("quota")

    @tool(contained=True)
    def number(*, context: ToolContext) -> ToolResult[int]:
        """Count the marks, and leave one."""
        found = len(context.session[mark].all())
        context.session[mark].append(mark("x"))
        return ToolResult.ok(found)

    yard.open(number, policies=(policy,))

    outcomes = yard.dispatch_all([ToolCall("number")] * 3)

    assert [each.event.reruns for each in outcomes] == [0, 1, 1]
    assert policy.asked == 3
    assert used(yard) == {"quota/reserved": 3}


def test_a_call_that_a_person_approves_reserves_once(yard: Any) -> None:
    policy = Counting("quota")

    @tool(requires_confirmation=True)
    def confirmed() -> str:
        """Answer."""
        return "done"

    yard.open(confirmed, policies=(policy,), approver=lambda _: ApprovalAnswer.approve())

    assert yard.call("confirmed").success
    assert policy.asked == 1


@pytest.mark.slow
def test_a_call_that_a_person_denies_reserves_nothing(yard: Any) -> None:
    policy = Counting("quota")

    @tool(requires_confirmation=True)
    def confirmed() -> str:
        """Answer."""
        return "done"

    yard.open(confirmed, policies=(policy,), approver=lambda _: ApprovalAnswer.deny("no"))

    assert yard.call("confirmed").status is Status.DENIED
    assert policy.asked == 0


def test_nested_calls_reserve_too(yard: Any, nesting: Callable[..., Tool[Any, Any]]) -> None:
    told: list[Any] = []
    yard.open(nesting("ping", told, is_async=False), ping, policies=(Counting("quota", limit=2),))

    assert yard.call("outer").success
    assert [each.success for each in told] == [True]
    assert used(yard) == {"quota/reserved": 2}
    assert yard.call("outer").status is Status.DENIED


def test_policies_see_who_is_in_flight(yard: Any) -> None:
    began, go = threading.Event(), threading.Event()

    @tool
    def hold() -> str:
        """Run for as long as the test wants."""
        began.set()
        go.wait(PATIENCE)
        return "held"

    tools = yard.open(hold, ping, policies=(OneAtATime("alone"),))
    holder = threading.Thread(target=lambda: tools.dispatch(ToolCall("hold", id="h")), daemon=True)
    holder.start()
    assert began.wait(PATIENCE)

    meanwhile = yard.call("hold")
    other = yard.call("ping")
    go.set()
    holder.join(PATIENCE)
    afterwards = yard.call("hold")

    assert meanwhile.status is Status.DENIED
    assert meanwhile.text == "hold is running. Wait for it, then retry."
    assert other.success
    assert afterwards.success


def test_calls_of_one_batch_see_those_before_them_in_flight(yard: Any) -> None:
    yard.open(ping, policies=(OneAtATime("alone"),))

    outcomes = yard.dispatch_all([ToolCall("ping")] * 4)

    assert [each.success for each in outcomes] == [True, False, False, False]


def test_a_call_in_flight_is_seen_with_its_id(yard: Any) -> None:
    seen: list[list[tuple[str, str]]] = []

    @tool
    def look(*, context: ToolContext) -> str:
        """Tell who is in flight."""
        seen.append([(each.call_id, each.tool_name) for each in context.inflight])
        return "looked"

    yard.open(look)

    yard.dispatch(ToolCall("look", id="me"))

    assert seen == [[("me", "look")]]
    assert len(yard.tools.runtime.inflight) == 0


@pytest.mark.parametrize("ending", ["fail", "raises", "stops"])
def test_no_call_stays_in_flight(yard: Any, ending: str) -> None:
    @tool
    def raises() -> str:
        """Raise."""
        raise LookupError

    @tool
    def stops() -> str:
        """Stop everything."""
        raise KeyboardInterrupt

    yard.open(fail, raises, stops)

    if ending == "stops":
        with pytest.raises(KeyboardInterrupt):
            yard.call(ending)
    else:
        yard.call(ending)

    assert list(yard.tools.runtime.inflight) == []


def test_tasks_never_exceed_a_limit_of_calls_at_once(make_yard: Callable[[str], Any]) -> None:
    running, most = [0], [0]

    @tool
    async def work() -> str:
        """Take a few turns of the loop."""
        running[0] += 1
        most[0] = max(most[0], running[0])
        for _ in range(3):
            await asyncio.sleep(0)
        running[0] -= 1
        return "done"

    class AtMostThree(Counting):
        def reserve(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
            if len(context.inflight) >= 3:
                return PolicyDecision.deny("Three are running. Wait, then retry.")
            return PolicyDecision.allow()

    yard = make_yard("async")
    tools = yard.open(work, policies=(AtMostThree("three"),))

    async def together() -> list[Any]:
        return await asyncio.gather(*(tools.adispatch(ToolCall("work")) for _ in range(20)))

    outcomes = asyncio.run(together())

    assert most[0] == 3
    assert sum(each.success for each in outcomes) >= 3

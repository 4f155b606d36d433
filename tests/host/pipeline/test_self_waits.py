"""A call that a hook or a handler dispatches in its own session waits for no call that waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolstile_hookspecs import (
    Outcome,
    Status,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolPolicy,
    ToolResult,
    hookimpl,
    tool,
)


@tool
def first() -> None:
    """Be heard of."""


@tool
def second() -> None:
    """Be dispatched by who heard of it."""


class Telling:
    """Dispatches another call in each place that hears of the first while that has its turn."""

    def __init__(self, where: str, yard: Any) -> None:
        self.where = where
        self.yard = yard
        self.told: list[Outcome] = []

    def hear(self, where: str, name: str) -> None:
        if where == self.where and name == "first":
            self.told.append(self.yard.tools.dispatch(ToolCall("second")))

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        self.hear("telemetry", event.call.name)


class Judge(ToolPolicy):
    name = "judge"

    def __init__(self, telling: Telling) -> None:
        self.telling = telling

    def on_result(
        self, tool: Any, params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        self.telling.hear("on_result", tool.name)


@pytest.mark.parametrize("where", ["telemetry", "on_result", "subscriber"])
def test_one_that_would_wait_for_the_turn_of_the_other_fails_at_once(yard: Any, where: str) -> None:
    telling = Telling(where, yard)
    yard.open(first, second, plugins=(telling,), policies=(Judge(telling),))
    yard.session.dispatcher.subscribe(
        ToolInvoked, lambda event: telling.hear("subscriber", event.call.name)
    )

    assert yard.call("first").success

    (outcome,) = telling.told
    assert outcome.status is Status.ERROR
    assert "Wait until the other call has returned, then retry." in outcome.text
    assert yard.call("second").success


def test_one_that_would_wait_for_a_serial_place_of_the_other_fails_at_once(yard: Any) -> None:
    told: list[Outcome] = []

    class Retrying:
        @hookimpl
        def toolstile_telemetry(self, event: ToolInvoked) -> None:
            if event.success:
                told.append(elsewhere.dispatch(ToolCall("alone")))

    @tool(concurrency="serial")
    def alone() -> None:
        """Have no other beside it."""

    yard.open(alone, plugins=(Retrying(),))
    elsewhere = yard.host.executor(prompt=yard.tools.prompt)

    assert yard.tools.dispatch(ToolCall("alone")).success

    (outcome,) = told
    assert outcome.status is Status.ERROR
    assert "waits for this call to " in outcome.text


@pytest.mark.parametrize("timeout", [None, 30.0])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_one_that_a_handler_dispatches_while_its_own_call_has_the_serial_place_fails_at_once(
    yard: Any, timeout: float | None, nested: bool, is_async: bool
) -> None:
    told: list[Outcome] = []

    def made_within(context: ToolContext) -> Any:
        if nested:
            return context.acall("again") if is_async else context.call("again")
        call = ToolCall("alone")
        return yard.tools.adispatch(call) if is_async else yard.tools.dispatch(call)

    @tool(concurrency="serial", timeout=timeout)
    def alone(*, context: ToolContext) -> None:
        """Dispatch itself, or have that done by another."""
        told.append(made_within(context))

    @tool(timeout=timeout)
    def again() -> ToolResult[None]:
        """Dispatch the first."""
        return ToolResult.ok(message=yard.tools.dispatch(ToolCall("alone")).text)

    @tool(name="alone", concurrency="serial", timeout=timeout)
    async def alone_async(*, context: ToolContext) -> None:
        """Dispatch itself, or have that done by another."""
        told.append(await made_within(context))

    @tool(name="again", timeout=timeout)
    async def again_async() -> ToolResult[None]:
        """Dispatch the first."""
        outcome = await yard.tools.adispatch(ToolCall("alone"))
        return ToolResult.ok(message=outcome.text)

    yard.open(*((alone_async, again_async) if is_async else (alone, again)))

    assert yard.call("alone").success

    (outcome,) = told
    assert "waits for this call to " in outcome.text


class Step:
    @property
    def owner(self) -> Any:
        raise NotImplementedError


def test_what_a_handler_calls_as_the_host_does_is_not_looked_at(yard: Any) -> None:
    told: list[Outcome] = []

    @tool(concurrency="serial")
    def alone() -> None:
        """Dispatch itself."""
        run, step = Path("/"), Step()
        told.append(yard.tools.dispatch(ToolCall("alone")))
        assert run.parent is not step

    yard.open(alone)

    assert yard.tools.dispatch(ToolCall("alone")).success
    assert "waits for this call to " in told[0].text


def test_one_in_another_session_is_dispatched(yard: Any) -> None:
    telling = Telling("telemetry", yard)
    yard.open(first, second, plugins=(telling,))
    here, yard.tools = yard.tools, yard.host.executor(prompt=yard.tools.prompt)

    assert here.dispatch(ToolCall("first")).success

    assert [each.success for each in telling.told] == [True]

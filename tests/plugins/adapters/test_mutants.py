"""The suite of adapters finds adapters that are wrong, whatever their framework."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from toolstile.testing import Hosts
from toolstile_hookspecs import ExecutorHandle, Outcome, Status, ToolCall
from toolstile_hookspecs.testing.frameworks import Scene

# One Python is enough for what frameworks do.
pytestmark = pytest.mark.slow
ADAPTERS = (
    pytest.param("claude_agent", marks=pytest.mark.slow),
    "langchain",
    "llm",
    "openai_agents",
    "pydantic_ai",
)
"""The adapters; the tests of each are in `test_NAME.py`, which says `SUITE` and `AGENT`."""


class Mutant:
    """An executor that an adapter uses wrongly."""

    def __init__(self, tools: ExecutorHandle) -> None:
        self._tools = tools

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tools, name)

    def made(self, call: ToolCall) -> ToolCall:
        return call

    def read(self, outcome: Outcome) -> Outcome:
        return outcome

    def dispatch(self, call: ToolCall, **more: Any) -> Outcome:
        return self.read(self._tools.dispatch(self.made(call), **more))

    async def adispatch(self, call: ToolCall, **more: Any) -> Outcome:
        return self.read(await self._tools.adispatch(self.made(call), **more))

    def adispatch_each(
        self, calls: Iterable[ToolCall], using: Sequence[Any] = ()
    ) -> Sequence[Coroutine[Any, Any, Outcome]]:
        async def read(each: Coroutine[Any, Any, Outcome]) -> Outcome:
            return self.read(await each)

        carried = self._tools.adispatch_each([self.made(call) for call in calls], using=using)
        return [read(each) for each in carried]


class SwappedOrder(Mutant):
    """Makes the calls of a turn in another order."""

    caught_by = "test_a_turn_is_one_batch_in_call_order"

    def adispatch_each(
        self, calls: Iterable[ToolCall], using: Sequence[Any] = ()
    ) -> Sequence[Coroutine[Any, Any, Outcome]]:
        carried = super().adispatch_each(list(calls)[::-1], using=list(using)[::-1])
        return list(carried)[::-1]


class LostId(Mutant):
    """Leaves out the id that the model gave to its call."""

    caught_by = "test_a_call_passes_all_stages"

    def made(self, call: ToolCall) -> ToolCall:
        return ToolCall(call.name, call.arguments)


class SwallowedDenial(Mutant):
    """Answers a call that was denied as if it had been made."""

    caught_by = "test_a_denial_is_read_and_the_run_goes_on"

    def read(self, outcome: Outcome) -> Outcome:
        is_denied = outcome.status is Status.DENIED
        return succeeded(outcome) if is_denied else outcome


class PauseForAnswer(Mutant):
    """Takes a call that waits for one that has been answered."""

    caught_by = "test_a_run_waits_for_a_person_and_goes_on_elsewhere"

    def read(self, outcome: Outcome) -> Outcome:
        is_pending = outcome.status is Status.PENDING
        return succeeded(outcome) if is_pending else outcome


def succeeded(outcome: Outcome) -> Outcome:
    return Outcome(replace(outcome.event, status=Status.SUCCEEDED, text="Done."))


MUTANTS: Sequence[Callable[[ExecutorHandle], Any]] = (
    SwappedOrder,
    LostId,
    SwallowedDenial,
    PauseForAnswer,
)


@pytest.mark.parametrize("side", ["our tools", "their tools"])
@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("name", ADAPTERS)
def test_a_wrong_adapter_fails(
    name: str, mutant: Any, side: str, toolstile_host: Hosts, tmp_path: Path
) -> None:
    tests = import_module(f"tests.plugins.adapters.test_{name}")
    suite, agent = tests.SUITE(), tests.AGENT()
    if mutant is SwappedOrder and not suite.gathers:
        pytest.skip("The calls of a turn come one by one.")
    if mutant is PauseForAnswer and not suite.pauses:
        pytest.skip("Runs do not wait.")
    options = {"approval_key": "k" * 32, "approval_spent": tmp_path / "spent.db"}
    test = getattr(suite, mutant.caught_by)
    test(Scene(agent, toolstile_host, side == "their tools", options=options))

    run = agent.run

    def run_wrongly(tools: ExecutorHandle, *given: Any) -> Any:
        return run(mutant(tools), *given)

    agent.run = run_wrongly
    scene = Scene(agent, toolstile_host, side == "their tools", options=options)
    with pytest.raises((AssertionError, KeyError)):
        test(scene)

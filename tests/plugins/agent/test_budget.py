"""Budgets bound what runs use: tokens, time and cost, also of agents within agents."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, Settings, tool
from toolstile.testing import FakeClock, ScriptedModel
from toolstile_hookspecs import (
    ApprovalAnswer,
    ConfigurationError,
    Deadline,
    DefinitionError,
    ToolContext,
    ToolInvoked,
)
from toolstile_hookspecs.agents.messages import StopReason, Usage
from toolstile_hookspecs.agents.provider import FaultType, ProviderError
from toolstile_hookspecs.services.counter import Counter
from toolstile_plugins.agent import (
    Agent,
    AgentConfig,
    Budget,
    BudgetExceeded,
    Price,
    RunFailed,
    TicketAnswer,
    TokenBudgetTracker,
)
from toolstile_plugins.policies import BudgetPolicy

PRICES = {"script": Price(input=2.0, output=10.0, cached=0.5)}


@tool
def think(tokens: int, *, context: ToolContext) -> str:
    """Ask another model, and count what it used."""
    assert context.budget_tracker is not None
    context.budget_tracker.spend(tokens)
    return f"{context.budget_tracker.remaining():g} left"


@tool
def dear() -> str:
    """Do what costs much."""
    return "done"


@tool(requires_confirmation=True)
def send() -> str:
    """Send it."""
    return "sent"


def prompt_of(*policies: Any) -> Prompt:
    section = MarkdownSection(key="s", title="S", tools=[think, dear, send])
    return Prompt(PromptTemplate("demo", "p", [section], policies=policies))


def run_of(budget: Budget, *script: Any, prompt: Any = None, usage: Any = (), **config: Any) -> Any:
    """Run a script in which each reply takes 100 tokens in and 10 out; return result, session."""
    model = ScriptedModel(*script, **dict(usage))
    with Host(discover=False) as host:
        settings = AgentConfig(budget=budget, **config)
        agent = Agent[str](prompt or prompt_of(), adapter=model, host=host, config=settings)
        return agent.execute("Go")


def failing(budget: Budget, *script: Any, **config: Any) -> RunFailed:
    with pytest.raises(RunFailed) as failed:
        run_of(budget, *script, **config)
    return failed.value


# --- The budget


def test_a_budget_limits_something_and_its_limits_are_positive() -> None:
    with pytest.raises(DefinitionError, match="limits nothing"):
        Budget()
    with pytest.raises(DefinitionError, match="limits nothing"):
        Budget(count_cached=False)
    for field in ("deadline", "max_total_tokens", "max_cost", "max_input_tokens"):
        for wrong in (0, -1, float("nan")):
            with pytest.raises(DefinitionError, match=f"{field} must be more than 0"):
                Budget(**{field: wrong})  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        Budget(max_cost=1.0).max_cost = 2.0  # type: ignore[misc]


# --- The tracker


def test_the_usage_of_a_run_is_replaced_and_that_of_several_runs_is_added() -> None:
    tracker = TokenBudgetTracker(Budget(max_total_tokens=100))
    tracker.record("a", Usage(10, 1))
    tracker.record("a", Usage(20, 2))
    tracker.record("b", Usage(5, 5))
    assert tracker.consumed == Usage(25, 7)
    assert tracker.remaining() == 68
    assert tracker.remaining("input_tokens") is None


def test_a_check_names_dimension_limit_and_use_and_takes_input_before_output_and_total() -> None:
    budget = Budget(max_input_tokens=10, max_output_tokens=10, max_total_tokens=20)
    tracker = TokenBudgetTracker(budget)
    tracker.record("a", Usage(10, 10))
    tracker.check()
    found = []
    for usage in (Usage(11, 11), Usage(9, 12)):
        tracker.record("a", usage)
        with pytest.raises(BudgetExceeded) as exceeded:
            tracker.check()
        found.append((exceeded.value.dimension, exceeded.value.limit, exceeded.value.used))
    assert found == [("input_tokens", 10, 11), ("output_tokens", 10, 12)]
    tracker.record("a", Usage(10, 10))
    with pytest.raises(BudgetExceeded, match="budget of 20 tokens is used up: 21 were used"):
        tracker.spend(1)


def test_cached_tokens_count_as_input_unless_the_budget_says_otherwise() -> None:
    left = []
    for count_cached in (True, False):
        budget = Budget(max_input_tokens=100, max_total_tokens=200, count_cached=count_cached)
        tracker = TokenBudgetTracker(budget)
        tracker.record("a", Usage(80, 10, cached_tokens=30))
        left.append((tracker.remaining("input_tokens"), tracker.remaining()))
    assert left == [(20, 110), (50, 140)]


def test_it_counts_across_threads() -> None:
    tracker = TokenBudgetTracker(Budget(max_total_tokens=10_000))

    def work(name: str) -> None:
        for number in range(1, 101):
            tracker.spend(1)
            tracker.record(name, Usage(number))

    threads = [threading.Thread(target=work, args=(f"run {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tracker.remaining() == 10_000 - 8 * 200


# --- In a run


def test_handlers_read_the_budget_and_spend_in_it() -> None:
    _, session = run_of(Budget(max_total_tokens=1000), [("think", {"tokens": 300})], "Done.")
    [event] = session[ToolInvoked].all()
    assert event.text == "590 left"


def test_what_a_handler_spends_beyond_the_budget_ends_the_run() -> None:
    failed = failing(Budget(max_total_tokens=200), [("think", {"tokens": 300})], "never")
    assert (failed.stop_reason, failed.phase) == (StopReason.BUDGET, "budget")
    assert "200 tokens" in str(failed)


def test_exactly_at_the_limit_is_not_exceeded() -> None:
    assert run_of(Budget(max_total_tokens=110), "Done.")[0].success
    failed = failing(Budget(max_total_tokens=109), "Done.")
    assert (failed.stop_reason, failed.phase) == (StopReason.BUDGET, "budget")


def test_the_deadline_is_looked_at_before_the_tokens() -> None:
    clock = FakeClock()

    def late(_: Any) -> str:
        clock.advance(60)
        return "Done."

    budget = Budget(deadline=30, max_total_tokens=1)
    with Host(discover=False, clock=clock) as host:
        config = AgentConfig(budget=budget)
        agent = Agent[str](prompt_of(), adapter=ScriptedModel(late), host=host, config=config)
        assert agent.run("Go").stop_reason is StopReason.DEADLINE


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("most", "end", "requests"),
    [(210, StopReason.END, 2), (209, StopReason.BUDGET, 2), (99, StopReason.BUDGET, 1)],
)
def test_a_request_that_failed_counts_where_its_provider_tells_the_tokens(
    most: int, end: StopReason, requests: int, *, is_async: bool
) -> None:
    later = ProviderError(
        "Overloaded.", FaultType.UNAVAILABLE, retry_after=0.0, usage=Usage(100, 0)
    )
    model = ScriptedModel(later, "Done.")
    with Host(discover=False) as host:
        config = AgentConfig(budget=Budget(max_total_tokens=most))
        agent = Agent[str](prompt_of(), adapter=model, host=host, config=config)
        result = asyncio.run(agent.arun("Go")) if is_async else agent.run("Go")
    # Once more than there is was used, nothing is asked again.
    assert (result.stop_reason, len(model.requests)) == (end, requests)
    assert result.usage == (Usage(200, 10) if requests == 2 else Usage(100, 0))


def test_each_request_has_a_budget_of_its_own() -> None:
    model = ScriptedModel("One.", "Two.")
    with Host(discover=False) as host:
        config = AgentConfig(budget=Budget(max_total_tokens=110))
        agent = Agent[str](prompt_of(), adapter=model, host=host, config=config)
        assert [agent.run("Go").success for _ in range(2)] == [True, True]


def test_an_agent_within_a_handler_shares_the_budget_that_it_is_handed() -> None:
    @tool
    def delegate(*, context: ToolContext) -> str:
        """Let another agent answer."""
        tracker = context.budget_tracker
        assert isinstance(tracker, TokenBudgetTracker)
        nested = Agent[str](prompt_of(), adapter=ScriptedModel("from below"), host=host)
        return nested.execute("Go", tracker=tracker)[0].text

    section = MarkdownSection(key="d", title="D", tools=[delegate])
    prompt = Prompt(PromptTemplate("demo", "d", [section]))
    with Host(discover=False) as host:
        ends = []
        for most in (330, 329):
            model = ScriptedModel([("delegate", {})], "Done.")
            config = AgentConfig(budget=Budget(max_total_tokens=most))
            agent = Agent[str](prompt, adapter=model, host=host, config=config)
            ends.append(agent.run("Go").stop_reason)
    assert ends == [StopReason.END, StopReason.BUDGET]


def test_a_run_that_is_resumed_has_used_what_it_used_before() -> None:
    model = ScriptedModel([("send", {})], "never")
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending("t")) as host:
        config = AgentConfig(budget=Budget(max_total_tokens=110))
        agent = Agent[str](prompt_of(), adapter=model, host=host, config=config)
        result, _ = agent.execute("Go")
        assert result.state is not None
        answer = TicketAnswer(result.waiting[0].approval_token or "", ApprovalAnswer.approve())
        budget = Budget(max_total_tokens=109)
        with pytest.raises(RunFailed, match="109 tokens is used up: 110"):
            agent.resume(result.state, {"t": answer}, budget=budget)
    assert len(model.requests) == 1


# --- The cost


def test_a_model_costs_what_its_prices_say() -> None:
    price = Price(input=2.0, output=10.0)
    assert price.of(Usage(1_000_000, 100_000, cached_tokens=500_000)) == 3.0
    assert PRICES["script"].of(Usage(1_000_000, 100_000, cached_tokens=500_000)) == 2.25


def test_the_cost_of_a_run_is_bounded_by_prices() -> None:
    usage = {"usage": Usage(1_000_000, 100_000)}
    assert run_of(Budget(max_cost=3.0), "Done.", usage=usage, prices=PRICES)[0].success
    failed = failing(Budget(max_cost=2.99), "Done.", usage=usage, prices=PRICES)
    assert failed.stop_reason is StopReason.BUDGET
    assert "budget of 2.99 cost is used up: 3 were used" in str(failed)


def test_prices_come_from_the_configuration() -> None:
    prices = {"script": {"input": 2.0, "output": 10.0}}
    settings = Settings.model_validate({"plugins": {"agent": {"prices": prices}}})
    model = ScriptedModel("Done.", usage=Usage(1_000_000, 100_000))
    with Host(settings=settings, discover=["agent"]) as host:
        config = AgentConfig(budget=Budget(max_cost=2.99))
        agent = Agent[str](prompt_of(), adapter=model, host=host, config=config)
        assert agent.run("Go").stop_reason is StopReason.BUDGET


def test_a_model_without_a_price_is_not_taken_to_be_free() -> None:
    with pytest.raises(ConfigurationError, match=r'\[plugins.agent.prices."script"\]'):
        run_of(Budget(max_cost=1.0), "never")


# --- Over runs and processes


@contextmanager
def at_a_desk(path: Path, clock: FakeClock, **options: Any) -> Iterator[Host]:
    """Open a host as each process of a company does: with one file of sessions and counters."""
    settings = Settings.model_validate({"plugins": {"sessions": {"path": str(path)}}})
    with Host(settings=settings, discover=["sessions"], clock=clock, **options) as host:
        yield host


def test_what_has_one_key_counts_over_hosts_until_its_window_has_passed(tmp_path: Path) -> None:
    clock = FakeClock()

    def ended(key: str) -> StopReason:
        budget = Budget(max_total_tokens=250, key=key, window=3600)
        with at_a_desk(tmp_path / "s.db", clock) as host:
            config = AgentConfig(budget=budget)
            model = ScriptedModel("Done.")
            agent = Agent[str](prompt_of(), adapter=model, host=host, config=config)
            return agent.run("Go").stop_reason

    ends = [ended("team"), ended("team"), ended("team"), ended("others")]
    assert ends == [StopReason.END, StopReason.END, StopReason.BUDGET, StopReason.END]
    clock.advance(3600)
    assert ended("team") is StopReason.END


def test_what_handlers_spend_and_runs_that_are_resumed_count_once(tmp_path: Path) -> None:
    clock = FakeClock()
    budget = Budget(max_total_tokens=1000, max_cost=50.0, key="team")
    waiting: Any = {"approver": lambda _: ApprovalAnswer.pending("t")}
    config = AgentConfig(budget=budget, prices=PRICES)
    with at_a_desk(tmp_path / "s.db", clock, **waiting) as host:
        model = ScriptedModel([("think", {"tokens": 300})], [("send", {})])
        agent = Agent[str](prompt_of(), adapter=model, host=host, config=config)
        result, _ = agent.execute("Go", session_id="s")
    assert result.state is not None
    answer = TicketAnswer(result.waiting[0].approval_token or "", ApprovalAnswer.approve())
    with at_a_desk(tmp_path / "s.db", clock, **waiting) as host:
        agent = Agent[str](prompt_of(), adapter=ScriptedModel("."), host=host, config=config)
        assert agent.resume(result.state, {"t": answer})[0].success
    with at_a_desk(tmp_path / "s.db", clock) as host, host.executor() as tools:
        counter = tools.resources.get(Counter)  # type: ignore[type-abstract]
        assert counter.read("team:tokens", now=clock.now()) == 3 * 110 + 300
        assert counter.read("team:cost", now=clock.now()) == pytest.approx(3 * 0.0003)


def test_a_moment_is_not_the_time_of_each_run() -> None:
    moment: Any = Deadline.after(60)
    with pytest.raises(DefinitionError, match=r"a number of seconds.* as execute\(deadline="):
        AgentConfig(deadline=moment)
    with pytest.raises(DefinitionError, match="deadline must be more than 0, as a number"):
        Budget(deadline=moment)


def test_a_window_needs_a_key() -> None:
    with pytest.raises(DefinitionError, match="needs a key"):
        Budget(max_cost=1.0, window=60)


# --- The policy


def test_a_policy_denies_tools_once_too_little_is_left_and_says_what_is_left() -> None:
    policy = BudgetPolicy(least=800, tools=["dear"], name="dear-at-the-end")
    script = [[("dear", {})], [("dear", {}), ("think", {"tokens": 0})], "Done."]
    _, session = run_of(Budget(max_total_tokens=1000), *script, prompt=prompt_of(policy))
    assert [event.text for event in session[ToolInvoked].all()] == [
        "done",
        (
            "dear cannot be called with less than 800 tokens of the budget, and 780 are left. "
            "Continue without it."
        ),
        "780 left",
    ]


def test_without_a_budget_the_policy_denies_nothing() -> None:
    prompt = prompt_of(BudgetPolicy(least=800, unit="cost", name="b"))
    with Host(discover=False) as host:
        agent = Agent[str](prompt, adapter=ScriptedModel([("dear", {})], "Done."), host=host)
        _, session = agent.execute("Go")
    assert [event.text for event in session[ToolInvoked].all()] == ["done"]


def test_the_policy_is_of_the_kind_budget() -> None:
    table = {"kind": "budget", "least": 0.5, "unit": "cost", "tools": ["dear"]}
    settings = Settings.model_validate({"policies": [table]})
    with Host(settings=settings, discover=["policies"], tools=[dear]) as host:
        assert [type(each) for each in host.policies] == [BudgetPolicy]
    with pytest.raises(DefinitionError, match="more than 0"):
        BudgetPolicy(least=0)

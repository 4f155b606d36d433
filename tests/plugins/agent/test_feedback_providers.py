"""The built-in providers say how time, budget, plan and calls stand."""

from __future__ import annotations

from typing import Any

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, Session, ToolCall, tool
from toolstile.testing import FakeClock
from toolstile_hookspecs import BudgetTracker, Deadline, ToolResult
from toolstile_hookspecs.agents.guidance import (
    Feedback,
    FeedbackProviderConfig,
    FeedbackTrigger,
    Severity,
)
from toolstile_plugins.agent import (
    Budget,
    BudgetFeedback,
    DeadlineFeedback,
    Guidance,
    NoProgressFeedback,
    PlanFeedback,
    RepeatedFailureFeedback,
    TokenBudgetTracker,
)
from toolstile_plugins.planning import Plan, PlanStep


@tool(category="read")
def look(what: str) -> ToolResult[str]:
    """Look at a thing."""
    return ToolResult.error("Not there.") if what == "nothing" else ToolResult.ok(what)


@tool(category="write", contained=True)
def note(text: str) -> str:
    """Note it."""
    return text


def feedback(provider: Any, *calls: Any, session: Any = None, **options: Any) -> list[Feedback]:
    """Make calls one by one; return what the provider said, last first."""
    trigger = FeedbackTrigger(every_n_calls=1)
    section = MarkdownSection(key="s", title="S", tools=[look, note])
    configs = [FeedbackProviderConfig(provider, trigger)]
    prompt = Prompt(PromptTemplate("demo", "p", [section], feedback_providers=configs))
    given: list[Feedback] = []
    arguments: Any = {"session": session} if session else {}
    with (
        Host(discover=False) as host,
        host.executor(prompt=prompt, **arguments, **options) as tools,
    ):
        guidance = Guidance(tools, host)
        for name, params in calls:
            [outcome] = guidance.with_feedback([tools.dispatch(ToolCall(name, params))])
            given += getattr(outcome, "feedback", ())
    return given


LOOK, NOTHING, NOTE = (
    ("look", {"what": "a"}),
    ("look", {"what": "nothing"}),
    ("note", {"text": "x"}),
)


def at(seconds: float, limit: float | None = 600.0) -> Feedback | None:
    """Return what is said of a deadline after so many seconds."""
    clock = FakeClock()
    deadline = None if limit is None else Deadline.after(limit, clock=clock)
    configs = [FeedbackProviderConfig(DeadlineFeedback(), FeedbackTrigger(every_n_calls=1))]
    prompt = Prompt(PromptTemplate("demo", "p", feedback_providers=configs))
    with Host(discover=False, clock=clock) as host, host.executor(prompt=prompt) as tools:
        guidance = Guidance(tools, host, deadline=deadline)
        clock.advance(seconds)
        [outcome] = guidance.with_feedback([tools.dispatch(ToolCall("unknown"))])
        return next(iter(getattr(outcome, "feedback", ())), None)


def test_a_deadline_is_told_in_words_and_warned_of_near_its_end() -> None:
    early, late, over = at(125), at(500), at(600)
    assert early is not None
    assert late is not None
    assert over is not None
    assert (early.summary, early.severity) == ("2 min 5 s taken, 7 min 55 s left.", Severity.INFO)
    assert early.suggestions == ()
    assert late.severity is Severity.WARNING
    assert "begin nothing new" in late.suggestions[0]
    assert at(480) is not None
    assert at(480).severity is Severity.INFO  # type: ignore[union-attr]
    assert (over.summary, over.suggestions[0][:7]) == ("The time is over.", "Wrap up")
    assert at(10, None) is None


def test_the_same_call_that_fails_again_and_again_is_told() -> None:
    other = ("look", {"what": "nothing", "more": 1})
    provider = RepeatedFailureFeedback(n=3)
    assert feedback(provider, NOTHING, NOTHING) == []
    assert feedback(provider, NOTHING, NOTHING, other) == []
    assert feedback(provider, NOTHING, LOOK, NOTHING, NOTHING) == []
    [given] = feedback(provider, NOTHING, NOTHING, NOTHING)
    assert given.summary == "The same call of look has failed 3 times."
    [given] = feedback(provider, *[("unknown", {})] * 3)
    assert "unknown" in given.summary


def test_calls_that_change_nothing_are_told() -> None:
    provider = NoProgressFeedback(n=3)
    assert feedback(provider, LOOK, NOTE, LOOK) == []
    [given] = feedback(provider, NOTE, LOOK, NOTHING, ("note", {}))
    assert given.summary == "3 calls have changed nothing."


def test_a_small_rest_of_the_budget_is_told() -> None:
    tracker = TokenBudgetTracker(Budget(max_total_tokens=100))
    resources: dict[type[Any], Any] = {BudgetTracker: tracker}
    provider = BudgetFeedback(least=50)
    tracker.spend(50)
    assert feedback(provider, LOOK, resources=resources) == []
    tracker.spend(1)
    [given] = feedback(provider, LOOK, resources=resources)
    assert given.summary == "49 tokens of the budget are left."
    assert feedback(BudgetFeedback(least=50, unit="cost"), LOOK, resources=resources) == []
    assert feedback(provider, LOOK) == []


def planned(*statuses: Any) -> Session:
    session = Session()
    steps = tuple(PlanStep(n, f"step {n}", status) for n, status in enumerate(statuses, 1))
    session[Plan].seed(Plan("Ship", steps=steps))
    return session


def test_open_steps_of_which_none_is_in_progress_are_told() -> None:
    [given] = feedback(PlanFeedback(), LOOK, session=planned("done", "pending", "pending"))
    assert given.summary == "Open steps of the plan: 2, none in progress."
    assert given.suggestions == ("Begin step 2, 'step 2', and mark it in_progress.",)
    for statuses in (("done", "done"), ("pending", "in_progress"), ()):
        assert feedback(PlanFeedback(), LOOK, session=planned(*statuses)) == []
    assert feedback(PlanFeedback(), LOOK) == []

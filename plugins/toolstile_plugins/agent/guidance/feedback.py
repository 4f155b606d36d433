"""The built-in providers of feedback."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import PositiveInt

from toolstile_hookspecs.agents.guidance import Feedback, GuidanceContext, Severity
from toolstile_hookspecs.support.text import duration
from toolstile_plugins.planning.model import Plan


class _Ready:
    def should_run(self, context: GuidanceContext) -> bool:  # noqa: ARG002 - a provider
        return True


@dataclass(frozen=True)
class StaticFeedback(_Ready):
    """Says the same at each trigger."""

    text: str
    name: str = "static"

    def provide(self, context: GuidanceContext) -> Feedback:  # noqa: ARG002 - a provider
        return Feedback(self.text)


@dataclass(frozen=True)
class DeadlineFeedback(_Ready):
    """Says how much time is left; with fewer seconds than the threshold, as a warning."""

    warning_threshold: float = 120.0
    name: str = "deadline"

    def provide(self, context: GuidanceContext) -> Feedback | None:
        if context.deadline is None:
            return None
        left = context.deadline.remaining()
        if left <= 0:
            advice = ("Wrap up: answer now with what you have.",)
            return Feedback("The time is over.", (), advice, Severity.WARNING)
        taken = duration(context.clock.monotonic() - context.started)
        summary = f"{taken} taken, {duration(left)} left."
        if left >= self.warning_threshold:
            return Feedback(summary)
        advice = ("Finish the most important part first, and begin nothing new.",)
        return Feedback(summary, (), advice, Severity.WARNING)


@dataclass(frozen=True)
class RepeatedFailureFeedback(_Ready):
    """Says that the same call has failed n times in a row."""

    n: PositiveInt = 3
    name: str = "repeated_failure"

    def provide(self, context: GuidanceContext) -> Feedback | None:
        calls = context.recent_tool_calls(self.n)
        same = {(each.tool_name, str(each.arguments or each.call.arguments)) for each in calls}
        if len(calls) < self.n or len(same) > 1 or any(each.success for each in calls):
            return None
        summary = f"The same call of {calls[0].tool_name} has failed {self.n} times."
        advice = ("Change its arguments or use another tool; it would fail again.",)
        return Feedback(summary, (), advice, Severity.CAUTION)


@dataclass(frozen=True)
class NoProgressFeedback(_Ready):
    """Says that n calls in a row have changed nothing: each failed, or only read."""

    n: PositiveInt = 10
    name: str = "no_progress"

    def provide(self, context: GuidanceContext) -> Feedback | None:
        calls = context.recent_tool_calls(self.n)
        changed = (each.success and each.tool and each.tool.category != "read" for each in calls)
        if len(calls) < self.n or any(changed):
            return None
        advice = ("Act on what you know, or say what keeps you from it.",)
        return Feedback(f"{self.n} calls have changed nothing.", (), advice, Severity.CAUTION)


@dataclass(frozen=True)
class BudgetFeedback(_Ready):
    """Says that less of the budget is left than `least`, in tokens or another unit."""

    least: float
    unit: str = "tokens"
    name: str = "budget"

    def provide(self, context: GuidanceContext) -> Feedback | None:
        tracker = context.budget_tracker
        left = None if tracker is None else tracker.remaining(self.unit)
        if left is None or left >= self.least:
            return None
        advice = ("Come to an end with few words.",)
        summary = f"{max(left, 0):g} {self.unit} of the budget are left."
        return Feedback(summary, (), advice, Severity.WARNING)


@dataclass(frozen=True)
class PlanFeedback(_Ready):
    """Says that the session's plan has open steps, and none is in progress."""

    name: str = "plan"

    def provide(self, context: GuidanceContext) -> Feedback | None:
        plan = context.session[Plan].latest()
        steps = [] if plan is None else [step for step in plan.steps if step.status != "done"]
        if not steps or any(step.status == "in_progress" for step in steps):
            return None
        advice = (f"Begin step {steps[0].step_id}, {steps[0].title!r}, and mark it in_progress.",)
        return Feedback(f"Open steps of the plan: {len(steps)}, none in progress.", (), advice)

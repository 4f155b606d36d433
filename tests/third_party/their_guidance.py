"""A stranger's provider of feedback and checker of completion, by the contract alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolstile_hookspecs.agents.guidance import (
    Feedback,
    GuidanceContext,
    Observation,
    Severity,
    TaskCompletionResult,
)


@dataclass
class Pace:
    """Tells a model that calls one tool again and again to look at its results."""

    name: str = "pace"
    most: int = 3

    def should_run(self, context: GuidanceContext) -> bool:
        """Speak when the newest calls are all of one tool."""
        recent = context.recent_tool_calls(self.most)
        return len(recent) == self.most and len({call.tool_name for call in recent}) == 1

    async def provide(self, context: GuidanceContext) -> Feedback:
        """Return how often it was called."""
        tool = context.recent_tool_calls(1)[0].tool_name
        seen = Observation("pace", f"{tool}, {self.most} times", f"call {context.tool_call_count}")
        return Feedback("You go in a circle.", (seen,), ("Read what you have.",), Severity.CAUTION)


@dataclass
class Signed:
    """Lets a model stop when its text ends with a name."""

    by: str
    asked: list[int] = field(default_factory=list)

    def check(self, context: GuidanceContext) -> TaskCompletionResult:
        """Return the verdict."""
        self.asked.append(context.refusals)
        if context.text.endswith(self.by):
            return TaskCompletionResult.ok()
        return TaskCompletionResult.incomplete(f"Sign it with {self.by}.")

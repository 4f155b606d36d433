"""Guidance of a model: providers of feedback, and checkers of its task's completion."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolstile_hookspecs.agents.feedback import Feedback, FeedbackTrigger
from toolstile_hookspecs.agents.messages import StopReason
from toolstile_hookspecs.calls import ToolInvoked
from toolstile_hookspecs.errors import DefinitionError
from toolstile_hookspecs.limits import BudgetTracker, Clock, Deadline, SystemClock
from toolstile_hookspecs.prompts import Prompt
from toolstile_hookspecs.resources import ResourceResolver
from toolstile_hookspecs.services.filesystem import Filesystem
from toolstile_hookspecs.sessions import SessionProtocol


@dataclass(frozen=True, kw_only=True)
class GuidanceContext:
    """The run as providers and checkers see it; calls and feedback are those of its prompt.

    Args:
        session: A copy of the session: what is written there is gone afterwards.
        prompt: The prompt.
        resources: The resources outside of any call.
        clock: The source of time.
        started: The reading of `clock.monotonic()` at the beginning of the run.
        deadline: The end of the run.
        adapter: The adapter of the provider.
        tool_call_count: The top-level calls so far in the session, failed and denied ones too.
        calls: The newest of them, oldest first.
        given: The last feedback of each provider, by name, oldest first.
        text: The model's last text, where completion is checked.
        tentative_output: The typed answer, where completion is checked and the prompt has one.
        stop_reason: Why the model stopped, where completion is checked.
        refusals: How often in a row its stop was refused.
    """

    session: SessionProtocol
    prompt: Prompt
    resources: ResourceResolver
    clock: Clock = field(default_factory=SystemClock)
    started: float = 0.0
    deadline: Deadline | None = None
    adapter: Any = None
    tool_call_count: int = 0
    calls: Sequence[ToolInvoked] = ()
    given: Mapping[str, Feedback] = field(default_factory=dict[str, Feedback])
    text: str = ""
    tentative_output: Any = None
    stop_reason: StopReason | None = None
    refusals: int = 0

    @property
    def filesystem(self) -> Filesystem | None:
        """The workspace, or None without one."""
        return self.resources.get(Filesystem, None)  # type: ignore[type-abstract]  # a protocol

    @property
    def budget_tracker(self) -> BudgetTracker | None:
        """The budget, or None without one."""
        return self.resources.get(BudgetTracker, None)  # type: ignore[type-abstract]  # a protocol

    @property
    def last_feedback(self) -> Feedback | None:
        """The feedback given last, or None."""
        return [None, *self.given.values()][-1]

    def last_feedback_for(self, name: str) -> Feedback | None:
        """Return the last feedback of a provider, or None."""
        return self.given.get(name)

    def calls_since(self, name: str) -> int:
        """Return the number of calls since the last feedback of a provider, else of all."""
        last = self.given.get(name)
        return self.tool_call_count - (last.call_index if last else 0)

    def recent_tool_calls(self, n: int) -> Sequence[ToolInvoked]:
        """Return the newest n calls, oldest first; none for 0 or less."""
        return self.calls[-n:] if n > 0 else ()


class FeedbackProvider(Protocol):
    """Says something to the model after its calls, and never stops one.

    What it raises, or takes longer than a second for, is logged and left out.
    """

    @property
    def name(self) -> str:
        """The name, unique in a prompt."""
        ...

    def should_run(self, context: GuidanceContext) -> bool | Awaitable[bool]:
        """Tell whether there may be something to say; asked when its trigger fires."""
        ...

    def provide(self, context: GuidanceContext) -> Feedback | Awaitable[Feedback | None] | None:
        """Return the feedback, or None."""
        ...


@dataclass(frozen=True, slots=True)
class FeedbackProviderConfig:
    """A provider and the moments at which it is asked.

    Args:
        provider: The provider.
        trigger: The moments.
    """

    provider: FeedbackProvider
    trigger: FeedbackTrigger


@dataclass(frozen=True, slots=True)
class TaskCompletionResult:
    """The answer of a checker; make it by `ok` or `incomplete`.

    Args:
        complete: Whether the model may stop.
        feedback: The words for the model.

    Raises:
        DefinitionError: When it is incomplete and does not say why.
    """

    complete: bool
    feedback: str | None = None

    def __post_init__(self) -> None:
        """Check that a refusal says why."""
        if not self.complete and not (self.feedback or "").strip():
            raise DefinitionError("TaskCompletionResult.incomplete: say what is missing.")

    @classmethod
    def ok(cls, feedback: str | None = None) -> TaskCompletionResult:
        """Return the answer that lets the model stop."""
        return cls(complete=True, feedback=feedback)

    @classmethod
    def incomplete(cls, feedback: str) -> TaskCompletionResult:
        """Return the answer that has the model go on; it reads the feedback."""
        return cls(complete=False, feedback=feedback)


class TaskCompletionChecker(Protocol):
    """Says whether a task is complete when the model stops; what it raises refuses the stop."""

    def check(
        self, context: GuidanceContext
    ) -> TaskCompletionResult | Awaitable[TaskCompletionResult]:
        """Return the verdict."""
        ...

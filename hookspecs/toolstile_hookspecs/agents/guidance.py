"""Guidance of a model: providers of feedback, and checkers of its task's completion."""

# pyright: reportReturnType=false

from __future__ import annotations

import html
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol

from toolstile_hookspecs._tools.field_checks import type_faults
from toolstile_hookspecs.agents.messages import StopReason
from toolstile_hookspecs.calls import Outcome, ToolInvoked
from toolstile_hookspecs.errors import DefinitionError
from toolstile_hookspecs.limits import BudgetTracker, Clock, Deadline, SystemClock
from toolstile_hookspecs.prompts import Prompt
from toolstile_hookspecs.resources import ResourceResolver
from toolstile_hookspecs.services.filesystem import Filesystem
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.stored_names import stored_as

_DELIMITER: Final = re.compile(r"<(?=\s*/?\s*feedback\b)", re.IGNORECASE)


class Severity(StrEnum):
    """The weight of feedback."""

    INFO = "info"
    CAUTION = "caution"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing that a provider has seen.

    Args:
        category: Its topic in a word.
        description: The thing seen.
        evidence: The proof, such as a line of output.
    """

    category: str
    description: str
    evidence: str = ""


@stored_as("agent.Feedback")
@dataclass(frozen=True, slots=True)
class Feedback:
    """Feedback of one provider; the loop fills in the last five fields.

    Args:
        summary: The whole in a sentence.
        observations: The things seen.
        suggestions: The things to do next.
        severity: The weight.
        provider_name: The name of the provider.
        timestamp: The moment it was given, aware.
        call_index: The number of calls before it, of all runs of the prompt in the session.
        prompt: The namespace and key of the prompt.
        call_id: The id of the call whose result it follows, "" past the host.

    Raises:
        DefinitionError: When a text is none, or stands in place of several.

    Example:
        >>> print(Feedback("Half of the time is over.", suggestions=("Write now.",)).render())
        <feedback provider="" severity="info">
        Half of the time is over.
        Suggestion: Write now.
        </feedback>
    """

    summary: str
    observations: tuple[Observation, ...] = ()
    suggestions: tuple[str, ...] = ()
    severity: Severity = Severity.INFO
    provider_name: str = ""
    timestamp: datetime | None = None
    call_index: int = 0
    prompt: str = ""
    call_id: str = ""

    def __post_init__(self) -> None:
        """Check the texts: without its comma a tuple of one is a text."""
        if faults := type_faults(self, Feedback, ("summary", "observations", "suggestions")):
            raise DefinitionError(f"Feedback: {'; '.join(faults)}.")

    def render(self) -> str:
        """Return one delimited block; its texts cannot close the delimiter."""
        seen = [
            f"{each.category}: {each.description}{f' ({each.evidence})' if each.evidence else ''}"
            for each in self.observations
        ]
        advice = [f"Suggestion: {suggestion}" for suggestion in self.suggestions]
        text = _DELIMITER.sub("&lt;", "\n".join([self.summary, *seen, *advice]))
        name = html.escape(self.provider_name)
        return f'<feedback provider="{name}" severity="{self.severity}">\n{text}\n</feedback>'


@dataclass(frozen=True)
class GuidedOutcome(Outcome):
    """The outcome of a call, and the feedback that dialects append to its result.

    Args:
        feedback: The feedback on the batch of the call; event, envelope and record are without it.
    """

    feedback: tuple[Feedback, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackTrigger:
    """The moments at which a provider is asked; one of them is enough.

    Args:
        every_n_calls: After so many calls since its own last feedback.
        every_n_seconds: After so many seconds since then; at once without earlier feedback.
        on_file_created: Once in a session, when the workspace has this file and had not at first.

    Raises:
        DefinitionError: When it would never fire.
    """

    every_n_calls: int | None = None
    every_n_seconds: float | None = None
    on_file_created: str | None = None

    def __post_init__(self) -> None:
        numbers = [n for n in (self.every_n_calls, self.every_n_seconds) if n is not None]
        if not (self.on_file_created or numbers):
            msg = "FeedbackTrigger never fires; give every_n_calls, every_n_seconds or "
            raise DefinitionError(f"{msg}on_file_created.")
        if not all(number > 0 for number in numbers):
            raise DefinitionError("FeedbackTrigger: its numbers must be more than 0.")


@dataclass(frozen=True, kw_only=True)
class GuidanceContext:
    """The run as providers and checkers see it, with the calls and feedback of its prompt.

    Args:
        session: A copy of the session, so that changes are lost.
        prompt: The prompt.
        resources: The resources outside of any call, or those of the run's transaction.
        clock: The source of time.
        started: The reading of `clock.monotonic()` at the beginning of the run.
        deadline: The end of the run.
        adapter: The adapter of the provider.
        tool_call_count: The top-level calls so far in the session, failed and denied ones too.
        calls: The newest of them, oldest first.
        given: The last feedback of each provider, by name, oldest first.
        text: The model's last text, for a checker of completion.
        tentative_output: The typed answer, for a checker, if the prompt has one.
        stop_reason: Why the model stopped, for a checker.
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
    """Gives feedback to the model after its calls; an exception is logged."""

    @property
    def name(self) -> str:
        """The name, unique in a prompt."""

    def should_run(self, context: GuidanceContext) -> bool | Awaitable[bool]:
        """Tell whether there may be something to say; asked when its trigger fires."""

    def provide(self, context: GuidanceContext) -> Feedback | Awaitable[Feedback | None] | None:
        """Return the feedback, or None."""


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
        if not self.complete and not (self.feedback or "").strip():
            raise DefinitionError("TaskCompletionResult.incomplete: name the missing parts.")

    @classmethod
    def ok(cls, feedback: str | None = None) -> TaskCompletionResult:
        """Return the answer that lets the model stop."""
        return cls(complete=True, feedback=feedback)

    @classmethod
    def incomplete(cls, feedback: str) -> TaskCompletionResult:
        """Return the answer that makes the model continue, with feedback for it."""
        return cls(complete=False, feedback=feedback)


class TaskCompletionChecker(Protocol):
    """Decides whether a task is complete when the model stops; an exception refuses the stop."""

    def check(
        self, context: GuidanceContext
    ) -> TaskCompletionResult | Awaitable[TaskCompletionResult]:
        """Return the verdict."""

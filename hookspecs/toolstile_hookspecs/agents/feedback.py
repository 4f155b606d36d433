"""Feedback: soft guidance that a model reads after the result of a call."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from toolstile_hookspecs.errors import DefinitionError
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
    """Feedback of one provider; the loop fills in the last four fields.

    Args:
        summary: The whole in a sentence.
        observations: The things seen.
        suggestions: The things to do next.
        severity: The weight.
        provider_name: The name of the provider.
        timestamp: The moment it was given, aware.
        call_index: The number of calls before it, of all runs of the prompt in the session.
        prompt: The namespace and key of the prompt.

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

    def render(self) -> str:
        """Return one delimited block; its texts cannot close the delimiter."""
        lines = [self.summary]
        for seen in self.observations:
            evidence = f" ({seen.evidence})" if seen.evidence else ""
            lines.append(f"{seen.category}: {seen.description}{evidence}")
        lines += [f"Suggestion: {suggestion}" for suggestion in self.suggestions]
        text = _DELIMITER.sub("&lt;", "\n".join(lines))
        name = html.escape(self.provider_name)
        return f'<feedback provider="{name}" severity="{self.severity}">\n{text}\n</feedback>'


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackTrigger:
    """The moments at which a provider is asked; one of them is enough.

    Args:
        every_n_calls: After so many calls since its own last feedback.
        every_n_seconds: After so many seconds since then; at once where there was none.
        on_file_created: Once in a session, when the workspace has this file and had not at first.

    Raises:
        DefinitionError: When it would never fire.
    """

    every_n_calls: int | None = None
    every_n_seconds: float | None = None
    on_file_created: str | None = None

    def __post_init__(self) -> None:
        """Check that it can fire."""
        numbers = [self.every_n_calls, self.every_n_seconds]
        if not self.on_file_created and numbers == [None, None]:
            raise DefinitionError(
                "FeedbackTrigger never fires; give every_n_calls, every_n_seconds or "
                "on_file_created."
            )
        if any(number is not None and not number > 0 for number in numbers):
            raise DefinitionError("FeedbackTrigger: its numbers must be more than 0.")

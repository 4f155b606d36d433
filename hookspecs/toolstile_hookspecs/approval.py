"""Asking a person: the request, and the answers there can be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from toolstile_hookspecs._tools.field_checks import type_faults
from toolstile_hookspecs.errors import DefinitionError
from toolstile_hookspecs.limits import Cancellation

if TYPE_CHECKING:
    from toolstile_hookspecs.calls import ToolCall
    from toolstile_hookspecs.context import ToolContext
    from toolstile_hookspecs.tools import Tool


class Answer(StrEnum):
    """The answer of an approver."""

    APPROVED = "approved"
    DENIED = "denied"
    EDITED = "edited"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The question that an approver sees.

    Args:
        call: The call as it came.
        tool: The tool.
        params: Its params; a copy of the approver's own.
        arguments: The params as canonical JSON, as the approval binds them; secrets are in
            clear here, so they are in no `repr`.
        reasons: Why it is asked, one per policy that does, or the tool's own rule.
        digest: SHA-256 of tool and arguments (and diff): what the approval is bound to.
        context: The call's context, read-only.
        diff: What the call would change, where it has run already and waits to commit.
        withdrawn: Cancelled once the answer is not waited for any more.
    """

    call: ToolCall
    tool: Tool[Any, Any]
    params: Any
    arguments: str = field(repr=False)
    reasons: tuple[str, ...]
    digest: str
    context: ToolContext = field(repr=False)
    diff: str | None = field(default=None, repr=False)
    withdrawn: Cancellation = field(default_factory=Cancellation, repr=False)


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """An approver's answer.

    Args:
        answer: What it is.
        reason: For the model, when denied; see `deny` and `unanswered`.
        arguments: The arguments to run instead, when edited; parsed and checked again.
        ticket: The approver's own name for the question, when pending.
        answered: Whether somebody, or a rule in their place, has decided. Where it is denied
            because nobody could be asked, or nobody answered, the reason says so.

    Raises:
        DefinitionError: For another type of answer or reason, or an edit without arguments.
    """

    answer: Answer
    reason: str | None = None
    arguments: Mapping[str, Any] | str | None = None
    ticket: str | None = None
    answered: bool = True

    def __post_init__(self) -> None:
        """Check that it says something; what it does not say would be taken for a denial."""
        faults = type_faults(self, ApprovalAnswer, ("answer", "reason"))
        if self.answer is Answer.EDITED and self.arguments is None:
            faults.append("the edit has no arguments; write ApprovalAnswer.edit(arguments)")
        if faults:
            raise DefinitionError(f"ApprovalAnswer: {'; '.join(faults)}.")

    @classmethod
    def approve(cls) -> ApprovalAnswer:
        """Return the answer that lets the call run as it was shown."""
        return cls(Answer.APPROVED)

    @classmethod
    def deny(cls, reason: str | None = None) -> ApprovalAnswer:
        """Return the answer that refuses it.

        Args:
            reason: A few words, which follow a colon: "A person did not approve send_mail: no
                passwords in mails."
        """
        return cls(Answer.DENIED, reason)

    @classmethod
    def unanswered(cls, reason: str) -> ApprovalAnswer:
        """Return the answer that refuses it because nobody was asked, or nobody answered.

        Args:
            reason: A whole sentence, which stands by itself: "There is no terminal to ask at."
        """
        return cls(Answer.DENIED, reason, answered=False)

    @classmethod
    def edit(cls, arguments: Mapping[str, Any] | str) -> ApprovalAnswer:
        """Return the answer that runs it with exactly these arguments."""
        return cls(Answer.EDITED, None, arguments)

    @classmethod
    def pending(cls, ticket: str | None = None, reason: str | None = None) -> ApprovalAnswer:
        """Return the answer that nobody has decided yet.

        The call ends, and its outcome has a token with which it can be resumed; see
        `Outcome.approval_token`.
        """
        return cls(Answer.PENDING, reason, None, ticket)


Approver = Callable[
    [ApprovalRequest], "ApprovalAnswer | bool | Awaitable[ApprovalAnswer | bool | None] | None"
]
"""Answers a request; `True` approves, `False` and `None` deny. May be async."""

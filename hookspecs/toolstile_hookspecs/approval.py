"""Approval by a person: the request and the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs._tools.field_checks import type_faults
from toolstile_hookspecs.errors import DefinitionError
from toolstile_hookspecs.limits import Cancellation

if TYPE_CHECKING:
    from toolstile_hookspecs.calls import ToolCall
    from toolstile_hookspecs.context import ToolContext
    from toolstile_hookspecs.execution.change_set import ChangeSet
    from toolstile_hookspecs.tools import Tool


class Answer(StrEnum):
    """The answer of an approver."""

    APPROVED = "approved"
    DENIED = "denied"
    EDITED = "edited"
    PENDING = "pending"


PERSON_ONLY: Final = "a person, each time"
"""The mark in `asked_by` of a question that neither a rule nor a grant answers."""


def _no_token(*, seconds: float | None = None) -> str:  # noqa: ARG001 - as one that seals
    return ""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The question that an approver sees.

    Args:
        call: The call as it came.
        params: A copy of the params.
        arguments: The params as canonical JSON, which the approval is bound to; secrets in clear.
        reasons: The reasons of the policies that ask, named in `asked_by`, or the tool's own rule.
        digest: SHA-256 of tool, arguments and diff, which the approval is bound to.
        context: The call's context, read-only.
        diff: The changes of a call that has run already and waits to commit.
        withdrawn: Cancelled once the answer is not needed any more.
        change_set: Gives the change set of such a call, to commit later; None if it has none.
        token: Gives a token that resumes the call, within a number of seconds if given.
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
    change_set: Callable[[], ChangeSet | None] = field(default=lambda: None, repr=False)
    token: Callable[..., str] = field(default=_no_token, repr=False)
    asked_by: tuple[str, ...] = ()

    @property
    def by_person(self) -> bool:
        """True if only a person's answer counts: an approver that asks no person must refuse."""
        return PERSON_ONLY in self.asked_by


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """An approver's answer.

    Args:
        answer: The answer itself.
        reason: For the model, when denied or pending; see `deny` and `unanswered`.
        arguments: The arguments to run instead, when edited; parsed and checked again.
        ticket: The approver's own name for the question, when pending.
        answered: Whether a person, or a rule in their place, has decided.
        token: The `token` of the request it answers, used up with the call; None to bind nothing.
        by: The person, and the way on which they answered, for events and records.

    Raises:
        DefinitionError: For another type of answer or reason, or an edit without arguments.
    """

    answer: Answer
    reason: str | None = None
    arguments: Mapping[str, Any] | str | None = None
    ticket: str | None = None
    answered: bool = True
    token: str | None = field(default=None, repr=False)
    by: str | None = None

    def __post_init__(self) -> None:
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
        """Return the answer that refuses the call; the reason is a few words after a colon."""
        return cls(Answer.DENIED, reason)

    @classmethod
    def unanswered(cls, reason: str) -> ApprovalAnswer:
        """Return the answer that refuses the call without a decision; the reason is a sentence."""
        return cls(Answer.DENIED, reason, answered=False)

    @classmethod
    def edit(cls, arguments: Mapping[str, Any] | str) -> ApprovalAnswer:
        """Return the answer that runs the call with exactly these arguments."""
        return cls(Answer.EDITED, None, arguments)

    @classmethod
    def pending(cls, ticket: str | None = None, reason: str | None = None) -> ApprovalAnswer:
        """Return that there is no decision yet: `Outcome.approval_token` resumes the call later."""
        return cls(Answer.PENDING, reason, None, ticket)


GivenAnswer = ApprovalAnswer | bool
Approver = Callable[[ApprovalRequest], "GivenAnswer | Awaitable[GivenAnswer | None] | None"]
"""Answers a request; `True` approves, `False` and `None` deny. May be async."""

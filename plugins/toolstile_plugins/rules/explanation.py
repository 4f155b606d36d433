"""Explanations of what decides on a call: the answer of each policy on its tool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    HostHandle,
    Outcome,
    PolicyDecision,
    PolicyStoreLocation,
    Principal,
    Status,
    ToolCall,
    ToolResult,
    Verdict,
    hookimpl,
)
from toolstile_hookspecs.execution.options import PolicyAnswer
from toolstile_plugins.record.replay_run import registered
from toolstile_plugins.record.schema import Decision as RecordedDecision

NAME: Final = "policy-explanation"
CONFIRMATION: Final = "requires_confirmation"
"""The name under which a tool itself asks."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict on a call, and the answers that it is made of.

    Args:
        verdict: The verdict of all policies together.
        text: The text that the model would read where the call is not judged.
        answers: The answers of the policies that govern the tool, in the order they were asked.
    """

    verdict: str
    text: str
    answers: tuple[PolicyAnswer, ...]


class _Nobody:
    """Answers in the place of handlers."""

    @hookimpl(tryfirst=True)
    def toolstile_execute(self) -> ToolResult[Any]:
        """Keep the handler from running."""
        return ToolResult.error("An explanation runs no handler.")


def explained(
    host: HostHandle, call: ToolCall, *, request: Sequence[str], principal: Principal | None
) -> Explanation:
    """Return what decides on a call in a new session; no handler runs, and nobody is asked.

    Args:
        host: The open host.
        call: The call.
        request: The texts in which the user says what is wanted.
        principal: The user.
    """
    answers = dict[str, PolicyAnswer]()
    questions = list[ApprovalRequest]()

    def approve(question: ApprovalRequest) -> ApprovalAnswer:
        questions.append(question)
        return ApprovalAnswer.approve()

    with (
        registered(host, _Nobody(), NAME),
        TemporaryDirectory(prefix="toolstile-policies-") as folder,
        host.executor(
            request=request,
            principal=principal,
            approver=approve,
            kept_apart=PolicyStoreLocation(Path(folder)),
            on_answer=lambda answer: answers.update({answer.policy: answer}),
        ) as tools,
    ):
        [outcome] = tools.dispatch_all([call])
    if not isinstance(outcome, Outcome):
        return Explanation(Verdict.ALLOW.value, "", (*answers.values(),))
    for said in outcome.event.decisions:
        # What was said as the call was to be counted, or in place of a policy that failed.
        name = said.policy or ""
        answers[name] = PolicyAnswer(name, said.verdict, said.reason or "")
    verdict, _ = judged(outcome.status, outcome.event.decisions)
    if any(question.tool.requires_confirmation for question in questions):
        why = f"{call.name} requires confirmation."
        answers[CONFIRMATION] = PolicyAnswer(CONFIRMATION, Verdict.ASK, why)
        verdict = verdict if verdict == Verdict.DENY else Verdict.ASK.value
    return Explanation(verdict, outcome.text, (*answers.values(),))


UNJUDGED: Final = "not judged"
"""The verdict on a call that ends before its policies, as one of a tool that is gone does."""
_BEFORE_POLICIES: Final = {Status.UNKNOWN_TOOL, Status.INVALID}
Decision = PolicyDecision | RecordedDecision


def judged(status: Status | None, decisions: Iterable[Decision]) -> tuple[str, Decision | None]:
    """Return the verdict of all policies on a call, and the decision that made it.

    Args:
        status: The status in which the call ended.
        decisions: The decisions, in order; deny wins over ask, and ask over allow.
    """
    decided = tuple(decisions)
    for verdict in (Verdict.DENY, Verdict.ASK):
        for decision in decided:
            if decision.verdict is verdict:
                return verdict.value, decision
    return UNJUDGED if status in _BEFORE_POLICIES else Verdict.ALLOW.value, None

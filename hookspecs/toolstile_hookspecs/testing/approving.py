"""A person who agrees to anything."""

from __future__ import annotations

from toolstile_hookspecs.approval import ApprovalAnswer, ApprovalRequest


def approve(request: ApprovalRequest) -> ApprovalAnswer:  # noqa: ARG001 - whatever it is
    """Answer as a person who agrees to anything."""
    return ApprovalAnswer.approve()

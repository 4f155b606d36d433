"""Approvals of calls as policies see them, and calls of foreign agents that wait for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs.approval import ApprovalAnswer
from toolstile_hookspecs.stored_names import stored_as

if TYPE_CHECKING:
    from toolstile_hookspecs.context import ToolContext


APPROVAL_BY: Final = "toolstile.approval_by"
"""The attribute of an event with the person who answered, and the channel."""


def is_approved(context: ToolContext) -> bool:
    """Tell whether a person has approved the call, edited or not.

    Known from the approval on: in `toolstile_execute`, `on_result` and `on_failure`. False for a
    context made by hand.
    """
    control: Any = context.control
    return bool(getattr(control, "is_approved", False))


@stored_as("toolstile.WaitingCall")
@dataclass(frozen=True)
class WaitingCall:
    """A call that waits, for a framework whose own state of a run has no room for its token.

    It is a slice of the session, in which the process that continues the run finds it. The newest
    one of an id and a digest counts.

    Args:
        call_id: The model's id of the call.
        question: The question, and the token that resumes the call; empty once resumed.
        answer: The answer, if the framework cannot express all of it.
        digest: The digest of tool and arguments, if calls of several runs may share an id.
        id: The host's id of the call; "" in sessions of earlier releases, whose id is `call_id`.
    """

    call_id: str
    question: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    answer: ApprovalAnswer | None = field(default=None, repr=False)
    digest: str = field(default="", repr=False)
    id: str = ""

"""A call of a foreign agent that waits for a person, as the session keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolstile_hookspecs.approval import ApprovalAnswer
from toolstile_hookspecs.stored_names import stored_as


@stored_as("toolstile.WaitingCall")
@dataclass(frozen=True)
class WaitingCall:
    """A call that waits, for a framework whose own state of a run has no room for its token.

    It is a slice of the session, so the process that goes on with the run finds it there. The
    newest one of an id and a digest counts.

    Args:
        call_id: The id that the model gave to the call.
        question: The question, and the token that resumes the call; empty once it has gone on.
        answer: The answer, where the framework cannot say all of it.
        digest: The digest of its tool and arguments, where runs may have calls of the same ids.
        id: The host's id of the call; "" in sessions of earlier releases, where `call_id` is it.
    """

    call_id: str
    question: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    answer: ApprovalAnswer | None = field(default=None, repr=False)
    digest: str = field(default="", repr=False)
    id: str = ""

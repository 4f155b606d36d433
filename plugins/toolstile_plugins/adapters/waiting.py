"""The parts of our calls that a foreign agent shows, and the calls that wait for a person."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from toolstile_hookspecs import ApprovalAnswer, ExecutorHandle, Outcome, StateError, ToolCall
from toolstile_hookspecs.approval import GivenAnswer
from toolstile_hookspecs.calls import APPROVAL_TICKET, APPROVAL_TOKEN, DIFF
from toolstile_hookspecs.execution.schemas import ToolSchema
from toolstile_hookspecs.execution.waiting_call import WaitingCall

TOKEN: Final = "toolstile_token"  # noqa: S105 - the key of one
"""The key of the token in the question of a call that waits."""


def offered(tools: ExecutorHandle) -> list[ToolSchema]:
    """Return the tools that can be called now, as any model is told of them."""
    return [ToolSchema.of(tool) for tool in tools.prompt.tools(tools.session)]


def question(outcome: Outcome) -> dict[str, str]:
    """Return the question of a call that waits for a person: all of it is plain text.

    Returns:
        `toolstile_token`, which resumes the call, and `question`; `diff` and `ticket` where there
        are such.
    """
    shown = {"ticket": APPROVAL_TICKET, "diff": DIFF, TOKEN: APPROVAL_TOKEN}
    attributes = outcome.event.attributes
    return {
        "question": outcome.text,
        **{key: str(attributes[name]) for key, name in shown.items() if name in attributes},
    }


def waits(tools: ExecutorHandle, outcome: Outcome, digest: str = "") -> WaitingCall:
    """Keep a call that waits in its session."""
    call = outcome.call
    kept = WaitingCall(call.wire_id, question(outcome), digest=digest, id=call.id)
    tools.session[WaitingCall].append(kept)
    return kept


def waiting(tools: ExecutorHandle, call_id: str, digest: str = "") -> WaitingCall | None:
    """Return the call of an id that waits, or None."""
    call = call_id, digest
    known = tools.session[WaitingCall].where(lambda kept: (kept.call_id, kept.digest) == call)
    return known[-1] if known and known[-1].question else None


def as_kept(call: ToolCall, kept: WaitingCall) -> ToolCall:
    """Return a call that goes on under the id by which it waits."""
    return replace(call, id=kept.id or kept.call_id)


def went_on(tools: ExecutorHandle, kept: WaitingCall) -> None:
    """Note that a call waits no more."""
    tools.session[WaitingCall].append(WaitingCall(kept.call_id, digest=kept.digest))


def answer(tools: ExecutorHandle, call_id: str, given: GivenAnswer, digest: str = "") -> None:
    """Answer a call that waits; it goes on when its run does.

    Args:
        tools: An executor of its session.
        call_id: The id that the model gave to the call.
        given: The answer: an approval, a denial with its reason, or an edit.
        digest: The digest with which it is kept.

    Raises:
        StateError: When no call of that id waits in the session.
    """
    kept = waiting(tools, call_id, digest)
    if kept is None:
        raise StateError(
            f"No call {call_id!r} waits in the session {tools.session.id!r}. Answer it in an "
            "executor of the session in which it was asked about."
        )
    if isinstance(given, bool):
        given = ApprovalAnswer.approve() if given else ApprovalAnswer.deny()
    tools.session[WaitingCall].append(replace(kept, answer=given))

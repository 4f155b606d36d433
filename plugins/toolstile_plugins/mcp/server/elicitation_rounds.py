"""Asking in rounds, as the newer era does: what goes to the client, and what comes back.

The state that the client gives back names the session of the call, which may be gone by then, and
carries the token with which the host resumes it. The token is sealed by the host, holds once and
for a time; what stands beside it is worth nothing without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, ElicitResult

from toolstile_hookspecs import ApprovalAnswer, Outcome
from toolstile_hookspecs.calls import APPROVAL
from toolstile_plugins.mcp.server.elicitation import meaning_of
from toolstile_plugins.mcp.server.elicitation_question import FORM
from toolstile_plugins.mcp.server.requests import RequestContext

QUESTION: Final = "approval"
"""What the question is called among those of a result."""
REFUSED: Final = "refused"
ALTERED: Final = "The request state was altered."
LONGEST_ID: Final = 256
DATA: Final = {"reason": "invalid_request_state"}


@dataclass(frozen=True, slots=True)
class RequestState:
    """What a client gives back when it repeats a request.

    Args:
        session: The id of the session that the call was made in.
        token: What the call is resumed with.
        handle: What names the session, where the request had begun it.
    """

    session: str
    token: str
    handle: str | None = None

    def written(self) -> str:
        """Return it as the client keeps it."""
        return json.dumps([self.session, self.token, self.handle], separators=(",", ":"))

    @classmethod
    def in_answer(cls, params: Mapping[str, Any] | None) -> RequestState | None:
        """Return the state in the params of a request that brings an answer, else None.

        Without an answer it is not looked at: nothing would tell then whether it is genuine.

        Raises:
            MCPError: When it is none that a server has written.
        """
        given = params or {}
        text = given.get("requestState")
        if text is None or QUESTION not in (given.get("inputResponses") or {}):
            return None
        try:
            session, token, handle = cast("list[object]", json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise _invalid(ALTERED) from None
        if not _is_id(session) or not isinstance(token, str):
            raise _invalid(ALTERED)
        return cls(session, token, handle if isinstance(handle, str) else None)


@dataclass(frozen=True, slots=True)
class Round:
    """The second round of a call: the answer that a repeated request brings.

    Args:
        state: What the client gives back.
        answer: What the person says.
    """

    state: RequestState
    answer: ApprovalAnswer

    @classmethod
    def of(cls, context: RequestContext, params: CallToolRequestParams) -> Round | None:
        """Return the round that a request is, None for the first one.

        Raises:
            MCPError: When its state is none that a server has written, or its answer is none to
                the question: the session is the one that the state names, in which nothing may
                run unless the host finds the token genuine.
        """
        state = RequestState.in_answer(context.params)
        if state is None:
            return None
        given = (params.input_responses or {}).get(QUESTION)
        if not isinstance(given, ElicitResult):
            raise _invalid(f"inputResponses[{QUESTION!r}] must be the result of an elicitation.")
        return cls(state, meaning_of(given))


def question_result(outcome: Outcome, question: str, handle: str | None) -> dict[str, Any]:
    """Return the result that asks for an answer.

    Args:
        outcome: That of the call, which is pending.
        question: What the person is asked.
        handle: What names the session, where the request has begun it.
    """
    token = outcome.approval_token
    assert token is not None  # noqa: S101 - it is pending
    state = RequestState(outcome.event.session_id, token, handle)
    asked = {"mode": "form", "message": question, "requestedSchema": FORM}
    return {
        "resultType": "input_required",
        "inputRequests": {QUESTION: {"method": "elicitation/create", "params": asked}},
        "requestState": state.written(),
    }


def refuse_invalid(outcome: Outcome) -> None:
    """Tell the client that a call was not resumed since its state does not hold.

    Raises:
        MCPError: Saying why.
    """
    if outcome.event.facts.get(APPROVAL) == REFUSED:
        raise _invalid(outcome.text)


def _is_id(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.isprintable() and len(value) <= LONGEST_ID


def _invalid(why: str) -> MCPError:
    return MCPError(INVALID_PARAMS, why, DATA)

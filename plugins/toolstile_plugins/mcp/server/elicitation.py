"""Asking the person at the client whether a call may run: by elicitation, as each era has it.

In the older era the server asks while the call waits. In the newer one it cannot: the call ends as
pending, its result says what is asked, and the client repeats the request with the answer; see
`elicitation_rounds`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, Final, TypeVar

from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolstile_hookspecs import ApprovalAnswer, ApprovalRequest
from toolstile_plugins.mcp.server.elicitation_question import FORM, question_of
from toolstile_plugins.mcp.server.requests import CallRequest, current_request

log = logging.getLogger("toolstile.mcp")

T = TypeVar("T")

NO_CLIENT: Final = "There is no MCP client whose request this is, so there is nobody to ask."
CANNOT_ASK: Final = (
    "The MCP client cannot ask a person: it does not have the capability `elicitation`, in the "
    "mode `form`."
)
NO_WAY_BACK: Final = "The MCP client cannot be asked over this connection."
BEFORE_DEADLINE: Final = 0.9
"""Of the time that a call has left: what remains is for telling that nobody has answered."""
CLOSED: Final = "The person closed the question without an answer."
NO_ANSWER: Final = "The MCP client gave no answer that can be understood."


def ask(request: ApprovalRequest, longest: float) -> ApprovalAnswer | Awaitable[ApprovalAnswer]:
    """Ask the client whose request is being answered.

    Args:
        request: What is asked.
        longest: Seconds for which an answer is waited for, where it can be.
    """
    asking = current_request()
    if asking is None:
        return ApprovalAnswer.unanswered(NO_CLIENT)
    session = asking.context.session
    if not _can_ask(session):
        return ApprovalAnswer.unanswered(CANNOT_ASK)
    if asking.context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        asking.questions[request.call.id] = question_of(request)
        return ApprovalAnswer.pending()
    if not session.can_send_request:
        return ApprovalAnswer.unanswered(NO_WAY_BACK)
    return _on_loop(asking, _elicit(asking, question_of(request), _patience(request, longest)))


def meaning_of(result: ElicitResult) -> ApprovalAnswer:
    """Return what a person's reaction to the question comes to."""
    match result.action:
        case "accept":
            return ApprovalAnswer.approve()
        case "decline":
            return ApprovalAnswer.deny()
        case "cancel":
            return ApprovalAnswer.unanswered(CLOSED)


def _can_ask(session: ServerSession) -> bool:
    capabilities = session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    # Before there were modes, there was no more to say than that it can ask.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _patience(request: ApprovalRequest, longest: float) -> float:
    deadline = request.context.deadline
    return longest if deadline is None else min(longest, deadline.remaining() * BEFORE_DEADLINE)


async def _elicit(asking: CallRequest, question: str, longest: float) -> ApprovalAnswer:
    context = asking.context
    try:
        async with asyncio.timeout(longest):
            result = await context.session.elicit_form(question, FORM, context.request_id)
    except TimeoutError:
        return ApprovalAnswer.unanswered(
            f"Nobody answered at the MCP client in {longest:.3g} seconds."
        )
    except (MCPError, ValidationError) as error:
        log.warning("An MCP client could not be asked: %s", error)
        return ApprovalAnswer.unanswered(NO_ANSWER)
    return meaning_of(result)


async def _on_loop(asking: CallRequest, waiting: Coroutine[Any, Any, T]) -> T:
    """Wait on the loop that the client is connected to, whichever one runs a nested call."""
    if asyncio.get_running_loop() is asking.loop:
        return await waiting
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(waiting, asking.loop))

"""What an approver is shown, and what its answer means."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from typing import Any

from toolyard_hookspecs import Answer, ApprovalAnswer, ApprovalRequest, Tool, ToolCall, ToolContext

log = logging.getLogger("toolyard.policies")


def digest_of(tool: Tool[Any, Any], arguments: bytes, diff: str | None = None) -> str:
    """Return what an approval is bound to: SHA-256 of the tool, its canonical params, the diff."""
    shown = tool.name.encode() + b"\0" + arguments
    if diff is not None:
        shown += b"\0" + diff.encode(errors="surrogatepass")
    return hashlib.sha256(shown).hexdigest()


def request_for(  # noqa: PLR0913 - all of it is shown
    call: ToolCall,
    tool: Tool[Any, Any],
    *,
    params: Any,
    arguments: bytes,
    reasons: Iterable[str],
    context: ToolContext,
    diff: str | None = None,
) -> ApprovalRequest:
    """Return the request that an approver is shown."""
    return ApprovalRequest(
        call=call,
        tool=tool,
        params=params,
        arguments=arguments.decode(),
        reasons=tuple(reasons),
        digest=digest_of(tool, arguments, diff),
        context=context,
        diff=diff,
    )


def read_answer(answer: object) -> ApprovalAnswer:
    """Return an approver's answer in one form; anything that is not an approval denies."""
    if isinstance(answer, ApprovalAnswer):
        if answer.answer is Answer.EDITED and answer.arguments is None:
            return ApprovalAnswer.deny("The approver edited the call but gave no arguments.")
        return answer
    if answer is True:
        return ApprovalAnswer.approve()
    if answer is not None and answer is not False:
        log.error(
            "The approver answered %s, so the call is denied. Answer True, False or an "
            "ApprovalAnswer.",
            type(answer).__qualname__,
        )
    return ApprovalAnswer.deny()

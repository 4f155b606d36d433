"""What an approver is shown, and what its answer means."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from toolstile_hookspecs import ApprovalAnswer, ApprovalRequest, Tool, ToolCall, ToolContext


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
    """Return an approver's answer in one form.

    Raises:
        TypeError: When it is none: then nobody was asked as they should have been.
    """
    if isinstance(answer, ApprovalAnswer):
        return answer
    if answer is True:
        return ApprovalAnswer.approve()
    if answer is None or answer is False:
        return ApprovalAnswer.deny()
    kind = type(answer).__qualname__
    raise TypeError(f"The approver answered {kind}. Answer True, False or an ApprovalAnswer.")

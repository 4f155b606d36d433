"""Keeps what moves on the terminal still while a person is asked."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from toolstile_hookspecs import ApprovalRequest, Approver


def undisturbed(
    approver: Approver | None, still: Callable[[], AbstractContextManager[None]]
) -> Approver | None:
    """Return an approver that answers as the given one, in stillness.

    Args:
        approver: Who is asked, None for nobody.
        still: Entered before the question, left after the answer.
    """
    if approver is None:
        return None

    def ask(request: ApprovalRequest) -> Any:
        with ExitStack() as stack:
            stack.enter_context(still())
            answer = approver(request)
            if not inspect.isawaitable(answer):
                return answer
            return _awaited(answer, stack.pop_all())

    return ask


async def _awaited(answer: Awaitable[Any], stack: ExitStack) -> Any:
    with stack:
        return await answer

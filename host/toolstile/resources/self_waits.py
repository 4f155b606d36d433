"""Whether a call would wait for one that waits for it: a hook, or a handler, has dispatched it.

What runs on a thread, or as a task, inherits a copy of the context. So a call is noted there as it
begins, and noted again, in a tuple, once it has its turn to commit: a copy that was made before is
that of a handler's stray task, for which the commit does not wait.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any, Final

CURRENT: Final[ContextVar[Any]] = ContextVar("toolstile_current_call", default=None)
"""The call at work here; in a tuple while it has its turn to commit."""


def is_below(call: object) -> bool:
    """Tell whether a call, or one around it, is at work further out here, and so cannot end."""
    each = _call_of(CURRENT.get())
    while each is not None:
        within = each
        while within is not None:
            if within is call:
                return True
            within = within.parent
        each = _call_of(_around(each))
    return False


def holds_up(call: object) -> bool:
    """Tell whether what is at work here runs within the turn of a call, which so cannot end."""
    each = CURRENT.get()
    while each is not None:
        if each.__class__ is tuple and each[0] is call:
            return True
        each = _around(_call_of(each))
    return False


def _call_of(noted: Any) -> Any:
    return noted[0] if noted.__class__ is tuple else noted


def _around(call: Any) -> Any:
    """Return what was noted where a call was dispatched; None for one that has ended."""
    noted = None if call.entered is None else call.entered.old_value
    return None if noted is Token.MISSING else noted

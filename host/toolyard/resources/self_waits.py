"""Whether a call would wait for one that waits for it: a hook, or a handler, has dispatched it.

The stack says so: whatever else could would have to be noted by every call.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

_OURS: Final = "toolyard.pipeline."
"""Begins the names of the modules that carry calls out."""


def is_below(call: object) -> bool:
    """Tell whether a call is at work further down on this very stack, and so cannot end now.

    That goes for the calls around it, too. Only for those that have to wait anyway: it looks at
    every frame.
    """
    frame = inspect.currentframe()
    while frame is not None:
        # What others call the same is theirs.
        is_ours = str(frame.f_globals.get("__name__")).startswith(_OURS)
        if is_ours and _is_within(_call_of(frame.f_locals), call):
            return True
        frame = frame.f_back
    return False


def _call_of(names: dict[str, Any]) -> Any:
    # What every stage calls it; a thread, or a task, of its own begins with a step.
    return names.get("run") or getattr(names.get("step"), "owner", None)


def _is_within(each: Any, call: object) -> bool:
    while each is not None and each is not call:
        each = getattr(each, "parent", None)
    return each is not None

"""Whether a call would wait for one that waits for it: a hook of that one has dispatched it.

The stack says so: whatever else could would have to be noted by every call.
"""

from __future__ import annotations

import inspect


def is_below(call: object) -> bool:
    """Tell whether a call is at work further down on this very stack, and so cannot end now.

    Only for those that have to wait anyway: it looks at every frame.
    """
    frame = inspect.currentframe()
    while frame is not None:
        # What every stage calls it.
        if frame.f_locals.get("run") is call:
            return True
        frame = frame.f_back
    return False

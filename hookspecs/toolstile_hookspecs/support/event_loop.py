"""Event loops: detection of the caller's."""

from __future__ import annotations

import sys


def is_on_loop() -> bool:
    """Tell whether the caller runs on an event loop."""
    # Where nobody has imported it, no loop runs; importing it takes long.
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

"""Event loops: detection of the caller's."""

from __future__ import annotations

import asyncio


def is_on_loop() -> bool:
    """Tell whether the caller runs on an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

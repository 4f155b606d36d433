"""Event loops: detection of the caller's."""

from __future__ import annotations

import sys


def is_on_loop() -> bool:
    """Tell whether the caller runs on an event loop."""
    # Where nobody has imported it, no loop runs; importing it takes long.
    asyncio = sys.modules.get("asyncio")
    # Its public twin raises without a loop, which takes ten times as long.
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - see above

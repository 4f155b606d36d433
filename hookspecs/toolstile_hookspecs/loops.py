"""Whether code runs on an event loop, which it must not block."""

from __future__ import annotations


def is_on_loop() -> bool:
    """Tell whether an event loop waits for whoever asks."""
    import asyncio  # late: commands that make no calls need not wait for it

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

"""A plugin with tools that take long and leave traces, for clients that mean no good."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from toolstile_hookspecs import MarkdownSection, ToolContext, hookimpl, tool

LONGEST = 120.0


@tool(category="read")
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool(category="read")
def recite(size: int) -> str:
    """Say something long."""
    return "x" * size


@tool(category="write", timeout=None)
def bake(began: str, ended: str, *, context: ToolContext) -> str:
    """Write a file of the workspace, touch a file outside, and wait to be cancelled."""
    assert context.filesystem is not None
    context.filesystem.write("bread.txt", "half baked")
    Path(began).touch()
    cancelled = threading.Event()
    context.abort_signal.on_cancel(cancelled.set)
    if cancelled.wait(LONGEST):
        Path(ended).touch()
    return "baked"


@tool(category="read", timeout=None)
def rest(began: str, until: str) -> str:
    """Touch a file, and wait until another is there."""
    Path(began).touch()
    end = time.monotonic() + LONGEST
    while not Path(until).exists() and time.monotonic() < end:
        time.sleep(0.01)
    return "rested" if Path(until).exists() else "woken"


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="bakery", title="Bakery", tools=[add, recite, bake, rest])]

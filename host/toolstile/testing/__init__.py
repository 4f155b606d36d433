"""What tests of plugins are written with: fixtures for pytest, and assertions about outcomes.

pytest finds the fixtures by itself; see `toolstile.testing.plugin`. Names are loaded when first
used: pytest imports this package in every run, also in those that have nothing to do with
Toolstile, and before coverage is measured.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolstile.testing.answers import Answers, InOrder
    from toolstile.testing.clock import FakeClock
    from toolstile.testing.hosts import Hosts
    from toolstile.testing.outcomes import assert_failed, assert_ok, described
    from toolstile.testing.workbench import Workbench, Workbenches

__all__ = [
    "Answers",
    "FakeClock",
    "Hosts",
    "InOrder",
    "Workbench",
    "Workbenches",
    "assert_failed",
    "assert_ok",
    "described",
]

_HOMES: Final = {
    "Answers": "answers",
    "FakeClock": "clock",
    "Hosts": "hosts",
    "InOrder": "answers",
    "Workbench": "workbench",
    "Workbenches": "workbench",
    "assert_failed": "outcomes",
    "assert_ok": "outcomes",
    "described": "outcomes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value

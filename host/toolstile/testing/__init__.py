"""Fixtures for pytest and assertions about outcomes, for the tests of plugins.

pytest finds the fixtures by itself; see `toolstile.testing.fixtures`. Names are loaded when first
used: pytest imports this package in every run, also in runs that have nothing to do with
Toolstile, and before coverage is measured.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolstile.testing.doubles import Answers, FakeClock, InOrder, ScriptedModel
    from toolstile.testing.hosts import Hosts
    from toolstile.testing.outcomes import assert_failed, assert_ok, described
    from toolstile.testing.workbench import Workbench, Workbenches

__all__ = [
    "Answers",
    "FakeClock",
    "Hosts",
    "InOrder",
    "ScriptedModel",
    "Workbench",
    "Workbenches",
    "assert_failed",
    "assert_ok",
    "described",
]

_HOMES: Final = {
    "Answers": "doubles",
    "FakeClock": "doubles",
    "Hosts": "hosts",
    "InOrder": "doubles",
    "ScriptedModel": "doubles",
    "Workbench": "workbench",
    "Workbenches": "workbench",
    "assert_failed": "outcomes",
    "assert_ok": "outcomes",
    "described": "outcomes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value

"""Toolstile: the host that every tool call of an agent passes through.

Names are loaded when first used, so that the command line starts quickly.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from toolstile._version import __version__ as __version__

if TYPE_CHECKING:
    from toolstile.executor import Executor as Executor
    from toolstile.host import Host as Host
    from toolstile.resources.bindings import ResourceRegistry as ResourceRegistry
    from toolstile.resources.manual import (
        PendingToolTracker as PendingToolTracker,
        create_snapshot as create_snapshot,
        restore_snapshot as restore_snapshot,
        tool_transaction as tool_transaction,
    )
    from toolstile.settings import Settings as Settings
    from toolstile.state.session import Session as Session
    from toolstile_hookspecs import *  # noqa: F403 - applications need one import only

_HOMES = {
    "Executor": "toolstile.executor",
    "Host": "toolstile.host",
    "PendingToolTracker": "toolstile.resources.manual",
    "ResourceRegistry": "toolstile.resources.bindings",
    "Session": "toolstile.state.session",
    "Settings": "toolstile.settings",
    "create_snapshot": "toolstile.resources.manual",
    "restore_snapshot": "toolstile.resources.manual",
    "tool_transaction": "toolstile.resources.manual",
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    home = importlib.import_module(_HOMES.get(name, "toolstile_hookspecs"))
    try:
        value = getattr(home, name)
    except AttributeError:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    contract = vars(importlib.import_module("toolstile_hookspecs"))
    names = {
        name
        for name, value in contract.items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    return sorted({*globals(), *_HOMES, *names})


if not TYPE_CHECKING:
    __all__ = list(_HOMES)

"""Toolyard: the host that every tool call of an agent passes through.

Names are loaded when first used, so that the command line starts quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from toolyard._version import __version__

if TYPE_CHECKING:
    from toolyard.executor import Executor
    from toolyard.host import Host
    from toolyard.manual import (
        PendingToolTracker,
        create_snapshot,
        restore_snapshot,
        tool_transaction,
    )
    from toolyard.resources.registry import ResourceRegistry
    from toolyard.settings import Settings
    from toolyard.state.session import Session
    from toolyard_hookspecs import *  # noqa: F403 - applications need one import only

_HOMES = {
    "Executor": "toolyard.executor",
    "Host": "toolyard.host",
    "PendingToolTracker": "toolyard.manual",
    "ResourceRegistry": "toolyard.resources.registry",
    "Session": "toolyard.state.session",
    "Settings": "toolyard.settings",
    "create_snapshot": "toolyard.manual",
    "restore_snapshot": "toolyard.manual",
    "tool_transaction": "toolyard.manual",
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    home = importlib.import_module(_HOMES.get(name, "toolyard_hookspecs"))
    try:
        value = getattr(home, name)
    except AttributeError:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    contract = importlib.import_module("toolyard_hookspecs")
    return sorted({*globals(), *_HOMES, *contract.__all__})


__all__ = [
    "Executor",
    "Host",
    "PendingToolTracker",
    "ResourceRegistry",
    "Session",
    "Settings",
    "__version__",
    "create_snapshot",
    "restore_snapshot",
    "tool_transaction",
]

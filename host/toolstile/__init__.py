"""Toolstile: the host that every tool call of an agent passes through.

Names are loaded when first used, so that the command line starts quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from toolstile._version import __version__

if TYPE_CHECKING:
    import toolstile_hookspecs
    from toolstile.executor import Executor
    from toolstile.host import Host
    from toolstile.resources.bindings import ResourceRegistry
    from toolstile.resources.manual import (
        PendingToolTracker,
        create_snapshot,
        restore_snapshot,
        tool_transaction,
    )
    from toolstile.settings import Settings
    from toolstile.state.session import Session
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
    contract = importlib.import_module("toolstile_hookspecs")
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
if TYPE_CHECKING:
    # For type checkers, the names of the contract are public here as well.
    __all__ += toolstile_hookspecs.__all__

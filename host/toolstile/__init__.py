"""Toolstile: the host that every tool call of an agent passes through.

Names are loaded when first used, so that the command line starts quickly.
"""

from __future__ import annotations

import importlib
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
    from toolstile.value_calls import CallFailed as CallFailed
    from toolstile_hookspecs import *  # noqa: F403 - applications need one import only
    from toolstile_plugins.agent import Agent as Agent

_HOMES = {
    "Agent": "toolstile_plugins.agent",
    "CallFailed": "toolstile.value_calls",
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
_OF_CONTRACT = """
    Answer ApprovalAnswer Binding Cancellation ConfigurationError Deadline ForeignTool
    IdempotencyConfig Interrupt MarkdownSection Outcome PersistentPolicy PolicyDecision Principal
    Prompt PromptEvaluationError PromptTemplate RunContext Secret Section StateError Status Tool
    ToolCall ToolContext ToolError ToolExample ToolInvoked ToolResult ToolSelector
    ToolValidationError ToolstileError VisibilityExpansionRequired hookimpl tool
"""
"""The names of the contract that an application uses. All others can be imported from here, too."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    home = importlib.import_module(_HOMES.get(name, "toolstile_hookspecs"))
    try:
        value = getattr(home, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    dunders = (name for name in globals() if name.startswith("__"))
    return sorted({*dunders, *_HOMES, *_OF_CONTRACT.split()})


if not TYPE_CHECKING:
    __all__ = list(_HOMES)

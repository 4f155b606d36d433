"""Isolation: handlers of tools with `isolation="process"` run in a process of their own.

The process is killed with all it started when its call ends or is given up. This bounds what a
handler can hang or leak; it is not a boundary against hostile code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolstile_hookspecs import Tool, applies_to, hookimpl

if TYPE_CHECKING:
    from toolstile_plugins.isolation.parent import IsolatedHandler


def is_isolated(tool: Tool[Any, Any]) -> bool:
    """Tell whether calls of a tool run in a process of their own."""
    return tool.isolation == "process" and tool.handler is not None


@hookimpl(trylast=True)
@applies_to(is_isolated)
def toolstile_execute(tool: Tool[Any, Any]) -> IsolatedHandler:
    """Run the handler in a process, unless a record or another plugin's sandbox answers."""
    from toolstile_plugins.isolation.parent import IsolatedHandler  # few tools have a process

    return IsolatedHandler(tool)

"""Isolation: handlers of tools with `isolation="process"` run in a separate process.

When the call ends or is abandoned, the process is killed with all processes that it started. This
limits the damage of handlers that hang or leak; it is not a boundary against hostile code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolstile_hookspecs import Tool, applies_to, hookimpl

if TYPE_CHECKING:
    from toolstile_plugins.isolation.parent import IsolatedHandler


def is_isolated(tool: Tool[Any, Any]) -> bool:
    """Return whether calls of a tool run in a separate process."""
    return tool.isolation == "process" and tool.handler is not None


@hookimpl(trylast=True)
@applies_to(is_isolated)
def toolstile_execute(tool: Tool[Any, Any]) -> IsolatedHandler:
    """Run the handler in a process, unless a record or another plugin's sandbox answers."""
    # Late, because few tools have a process.
    from toolstile_plugins.isolation.parent import IsolatedHandler

    return IsolatedHandler(tool)

"""The rules that govern a tool: the policies of the configuration and the application."""

from __future__ import annotations

import logging
from typing import Any

from toolstile_hookspecs import HostHandle, Tool, ToolPolicy, ToolSelector

log = logging.getLogger("toolstile.policies")


def rules_over(host: HostHandle, tool: Tool[Any, Any]) -> list[str]:
    """Return the names of the host's policies that check calls of a tool."""
    return [policy.name for policy in host.policies if _governs(policy, tool)]


def _governs(policy: ToolPolicy, tool: Tool[Any, Any]) -> bool:
    selector, checks = getattr(policy, "selector", None), getattr(policy, "checks", None)
    if isinstance(selector, ToolSelector) and not selector.selects(tool):
        return False
    try:
        return not callable(checks) or checks(tool) is not False
    except Exception:
        # The host keeps such a policy on, too.
        log.exception("checks of policy %s failed; the policy stays on.", policy.name)
        return True

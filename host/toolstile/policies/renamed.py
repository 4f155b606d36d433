"""The rules of a plugin whose tools go by other names: they know them by their own."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Awaitable, Mapping
from typing import Any, cast

from toolstile.policies.rules import Rule
from toolstile_hookspecs import PolicyDecision, Tool


def knowing(rule: Rule, originals: Mapping[str, Tool[Any, Any]]) -> Rule:
    """Return a rule that is shown tools as their author named them, and tells them as they go.

    Args:
        rule: The rule of a policy.
        originals: The tools of the policy's plugin, by the names that they go by.
    """
    known = _Known(rule, originals)
    return dataclasses.replace(
        rule,
        check=known.check,
        on_result=known.on_result,
        reserve=None if rule.reserve is None else known.reserve,
        on_rollback=None if rule.on_rollback is None else known.on_rollback,
        checks=None if rule.checks is None else known.checks,
        hears=None if rule.hears is None else known.hears,
    )


class _Known:
    """A policy's methods, over the tools as their author named them."""

    def __init__(self, rule: Rule, originals: Mapping[str, Tool[Any, Any]]) -> None:
        self._rule = cast("Any", rule)
        self._originals = originals
        self._names = {tool.name: name for name, tool in originals.items()}
        names = "|".join(map(re.escape, self._names))
        self._pattern = re.compile(rf"(?<![\w-])(?:{names})(?![\w-])")

    def checks(self, tool: Tool[Any, Any]) -> bool:
        return bool(self._rule.checks(self._original(tool)))

    def hears(self, tool: Tool[Any, Any]) -> bool:
        return bool(self._rule.hears(self._original(tool)))

    def check(self, tool: Tool[Any, Any], params: Any, *, context: Any) -> Any:
        return self._told(self._rule.check(self._original(tool), params, context=context))

    def on_result(self, tool: Tool[Any, Any], params: Any, result: Any, *, context: Any) -> Any:
        if tool.name in self._names and tool.name not in self._originals:
            # Somebody else's, which has a name that the policy means another tool by.
            return None
        return self._rule.on_result(self._original(tool), params, result, context=context)

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: Any) -> Any:
        return self._told(self._rule.reserve(self._original(tool), params, context=context))

    def on_rollback(self, tool: Tool[Any, Any], params: Any, *, context: Any) -> Any:
        return self._rule.on_rollback(self._original(tool), params, context=context)

    def _original(self, tool: Tool[Any, Any]) -> Tool[Any, Any]:
        return self._originals.get(tool.name, tool)

    def _told(self, decision: Any) -> Any:
        if inspect.isawaitable(decision):
            return self._told_later(decision)
        if not isinstance(decision, PolicyDecision) or decision.reason is None:
            return decision
        reason = self._pattern.sub(lambda found: self._names[found[0]], decision.reason)
        return dataclasses.replace(decision, reason=reason)

    async def _told_later(self, decision: Awaitable[Any]) -> Any:
        return self._told(await decision)

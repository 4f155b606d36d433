"""The calls of a session that an expression counts, and when the last of them ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from toolstile_hookspecs import PolicyState, Tool, ToolContext
from toolstile_hookspecs.selectors import fits

Reading = Mapping[str, list[float]]
"""From a counted name to the number of calls, and the seconds since the last one."""


class SessionCounts:
    """Counts the successes of tools in the record of a policy, so they go back with their calls.

    Args:
        policy: The name of the policy.
        names: The names of the tools, also as globs.
    """

    def __init__(self, policy: str, names: Collection[str]) -> None:
        self._policy = policy
        self._names = names
        self._by_tool: dict[str, list[str]] = {}

    def hears(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether calls of a tool are counted."""
        found = self._by_tool[tool.name] = [name for name in self._names if fits(tool, name)]
        return bool(found)

    def add(self, tool: Tool[Any, Any], context: ToolContext) -> None:
        """Count a success, in `on_result`."""
        state, now = PolicyState.of(context, self._policy), context.clock.now().timestamp()
        counted = [name for name in self._names if fits(tool, name)]
        more = {name: (state.data.get(name, (0,))[0] + 1, now) for name in counted}
        replace(state, data={**state.data, **more}).save(context)

    def readings(self, context: ToolContext) -> list[Reading]:
        """Return what a call sees; where others still run also with these, as if they succeed."""
        # These first: what ends meanwhile is counted twice rather than not at all.
        found = Counter[str]()
        own = context.tool_call and context.tool_call.id
        for call in context.inflight:
            if call.call_id == own:
                # A call that is run again after a conflict is among them, once.
                own = None
            else:
                found.update(self._by_tool.get(call.tool_name, ()))
        running = found
        data, now = PolicyState.of(context, self._policy).data, context.clock.now().timestamp()
        ended = {name: data.get(name, (0, -inf)) for name in self._names}
        settled = {name: [count, max(now - at, 0.0)] for name, (count, at) in ended.items()}
        if not running:
            return [settled]
        more = {name: [settled[name][0] + many, 0.0] for name, many in running.items()}
        return [settled, {**settled, **more}]

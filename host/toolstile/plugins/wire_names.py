"""Which tools can be called by their wire names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from toolstile_hookspecs import Tool


def serving_wire_names(tools: Iterable[Tool[Any, Any]]) -> dict[str, Tool[Any, Any]]:
    """Return the tools by the wire names that mean them.

    Of several tools with one wire name the first has it. Those of elsewhere, with an `origin`,
    have none that another tool has as well: nobody could take a call from the one that is meant.

    Args:
        tools: All tools there are, in the order in which their wire names count.
    """
    there = list(tools)
    claims = Counter(name for tool in there for name in {tool.name, tool.wire_name} if name)
    serving: dict[str, Tool[Any, Any]] = {}
    for tool in there:
        wire = tool.wire_name
        if wire is not None and (tool.origin is None or claims[wire] == 1):
            serving.setdefault(wire, tool)
    return serving

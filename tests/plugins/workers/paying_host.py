"""A host in a process of its own that pays orders: SETTINGS SECONDS ORDER..."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from remote_tools import TOOLS  # beside this program

from toolstile import Host, Settings, ToolCall


async def pay(plugins: dict[str, Any], seconds: float, orders: list[int]) -> None:
    with Host(tools=TOOLS, settings=Settings(plugins=plugins)) as host, host.executor() as tools:
        calls = [ToolCall("pay", {"order": order, "seconds": seconds}) for order in orders]
        await asyncio.gather(*map(tools.adispatch, calls))


if __name__ == "__main__":
    settings, seconds, *orders = sys.argv[1:]
    asyncio.run(pay(json.loads(settings), float(seconds), list(map(int, orders))))

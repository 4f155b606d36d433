"""A host in a process of its own that makes calls at once: SETTINGS MODULE CALLS.

The settings of plugins and the calls are JSON, and so are the texts of the outcomes that it prints.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any

from toolstile import Host, Settings, ToolCall
from toolstile_plugins.workers.handlers import tools_in


async def make(plugins: dict[str, Any], module: str, calls: list[Any]) -> list[str]:
    tools = tools_in([importlib.import_module(module)])
    with (
        Host(tools=[*tools.values()], settings=Settings(plugins=plugins)) as host,
        host.executor() as executor,
    ):
        made = (executor.adispatch(ToolCall(name, arguments)) for name, arguments in calls)
        return [outcome.text for outcome in await asyncio.gather(*made)]


if __name__ == "__main__":
    settings, module, calls = sys.argv[1:]
    told = asyncio.run(make(json.loads(settings), module, json.loads(calls)))
    json.dump(told, sys.stdout)

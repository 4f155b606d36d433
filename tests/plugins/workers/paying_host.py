"""A host in a process of its own that pays orders: FOLDER PATIENCE SECONDS ORDER..."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from remote_tools import TOOLS  # beside this program

from toolstile import Host, Settings, ToolCall


async def pay(folder: Path, patience: float, seconds: float, orders: list[int]) -> None:
    workers = {"path": str(folder / "calls.db"), "lease": 0.6, "patience": patience}
    ledger = {"path": str(folder / "ledger.db"), "backoff": 0.05}
    settings = Settings(
        plugins={"workers": {**workers, "runs": {"tools": ["*"]}}, "ledger": ledger}
    )
    with Host(tools=TOOLS, settings=settings) as host, host.executor() as tools:
        calls = [ToolCall("pay", {"order": order, "seconds": seconds}) for order in orders]
        await asyncio.gather(*map(tools.adispatch, calls))


if __name__ == "__main__":
    folder, patience, seconds, *orders = sys.argv[1:]
    asyncio.run(pay(Path(folder), float(patience), float(seconds), list(map(int, orders))))

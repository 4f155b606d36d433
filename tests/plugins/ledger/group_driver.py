"""Pay from many threads or tasks at once, each in a session of its own, ten times."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

from toolstile import Host, Settings, ToolCall
from toolstile_hookspecs import IdempotencyConfig, ToolContext, tool

EACH = 10


@tool(idempotency=IdempotencyConfig(scope="global"), timeout=None)
def pay(key: str, *, context: ToolContext) -> str:
    """Pay once."""
    return key


def main(way: str, callers: int, stores: str) -> None:
    path = {"path": str(Path.cwd() / "state.db")}
    plugins = {"ledger": path, "sessions": path} if stores == "sessions" else {"ledger": path}
    settings = Settings.model_validate({"durability": "power", "plugins": plugins})
    with Host(settings=settings, tools=[pay]) as host:
        calls = [
            [ToolCall("pay", {"key": f"{caller}.{number}"}) for number in range(EACH)]
            for caller in range(callers)
        ]

        def work(caller: int) -> None:
            with host.executor(session_id=str(caller)) as tools:
                for call in calls[caller]:
                    assert tools.dispatch(call).success

        async def awork(caller: int) -> None:
            with host.executor(session_id=str(caller)) as tools:
                for call in calls[caller]:
                    assert (await tools.adispatch(call)).success

        async def all_tasks() -> None:
            await asyncio.gather(*map(awork, range(callers)))

        if way == "tasks":
            asyncio.run(all_tasks())
            return
        threads = [threading.Thread(target=work, args=(caller,)) for caller in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

"""Makes calls as fast as it can, in a process of its own, until the file `done` is there.

A payment writes a line outside, at once. At the end it prints the numbers of calls by status, with
the reasons that the caller has read.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import NamedTuple

from toolstile import Host, IdempotencyConfig, Settings, Status, ToolCall, ToolContext, tool


class Paid(NamedTuple):
    """A payment in the session."""

    key: str


def settings(folder: Path, durability: str) -> Settings:
    """Return settings with sessions and the ledger in one file."""
    tables = {"sessions": {"path": folder / "calls.db"}, "ledger": {"path": folder / "calls.db"}}
    return Settings(plugins=tables, durability=durability, timeout=15.0)


def read(log: Path) -> list[tuple[int, str]]:
    """Return the lines outside: the time of each payment, and its key."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(time_), key) for time_, key in map(str.split, lines)]


def main(folder: Path, name: str, durability: str) -> None:
    """Pay until the file `done` is there."""
    log = os.open(folder / "bank.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @tool(category="side_effect", idempotency=IdempotencyConfig())
    def pay(key: str, context: ToolContext) -> str:
        """Pay."""
        os.write(log, f"{time.time_ns()} {key}\n".encode())
        context.session[Paid].append(Paid(key))
        return f"Paid {key}."

    statuses, reasons = Counter[str](), set[str]()
    done = folder / "done"
    host = Host(settings=settings(folder, durability), tools=[pay])
    with host, host.executor(session_id=name) as tools:
        (folder / f"{name}.ready").touch()
        for number in count():
            key = f"{name}-{number}"
            outcome = tools.dispatch(ToolCall("pay", {"key": key}, id=key))
            statuses[outcome.status] += 1
            if outcome.status in {Status.DENIED, Status.CANCELLED}:
                reasons.add(outcome.text.partition("stopped: ")[2].partition(".")[0])
                time.sleep(0.002)
            if not number % 20 and done.exists():
                break
    sys.stdout.write(json.dumps({"statuses": statuses, "reasons": sorted(reasons)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])

"""Measure the console's charts and sessions over a record of many calls of one day.

`python bench/console_day.py [CALLS]` writes a record of so many synthetic calls, by default
1,000,000, in a temporary folder (400 bytes for each), indexes it, and prints processor times.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

from starlette.testclient import TestClient

from toolstile import Host, Settings
from toolstile_plugins.console import Console

PAGES: Final = ("/", "/charts", "/sessions", "/calls")
ROUNDS: Final = 5
SESSIONS: Final = 1000
_STAGES: Final = [["check", 0.0], ["approve", 0.001], ["execute", 0.002], ["commit", 0.04]]
_OUTCOMES: Final = ("succeeded",) * 7 + ("denied", "failed", "timed_out")


def lines(calls: int, now: datetime) -> Iterator[str]:
    """Yield the lines of calls, spread over the day before a moment."""
    for number in range(calls):
        status = _OUTCOMES[number % len(_OUTCOMES)]
        line: dict[str, Any] = {
            "n": number + 1,
            "prev": "0",
            "kind": "call",
            "session": f"session {number % SESSIONS}",
            "id": f"c{number}",
            "status": status,
            "stage": "commit",
            "at": (now - timedelta(days=1) * (1 - number / calls)).isoformat(),
            "seconds": 0.05,
            "envelope": {"tool": f"tool_{number % 20}", "data": "Done."},
            "stages": _STAGES,
        }
        if status == "denied":
            line["decisions"] = [{"policy": f"rule {number % 7}", "verdict": "deny"}]
            line["approval"] = {"answer": "denied"} if number % 3 else None
        yield json.dumps({**line, "hash": "0"}, separators=(",", ":")) + "\n"


def measure(calls: int, folder: Path) -> dict[str, float]:
    """Return the seconds of processor time of each page, and of the index for each call."""
    record = folder / "calls.jsonl"
    with record.open("w", encoding="utf-8") as file:
        file.writelines(lines(calls, datetime.now(UTC)))
    plugins = {
        "record": {"file": record, "off": True},
        "inbox": {"path": folder / "inbox" / "inbox.db"},
    }
    settings = Settings.model_validate({"approver": "inbox", "plugins": plugins})
    with ExitStack() as stack:
        host = stack.enter_context(Host(settings=settings))
        console = Console(host, "http://127.0.0.1:8765")
        client = TestClient(console, "http://127.0.0.1:8765")
        client.headers["origin"] = "http://127.0.0.1:8765"
        token = console.url.partition("#")[2]
        entered = client.post("/login", data={"token": token}, follow_redirects=False)
        room = entered.headers["location"].rstrip("/")

        def spent(path: str) -> float:
            began = process_time()
            answer = client.get(f"{room}{path}")
            assert answer.status_code == 200, answer.text
            return process_time() - began

        found = {"index, a call": spent("/charts") / calls}
        return found | {path: min(spent(path) for _ in range(ROUNDS)) for path in PAGES}


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with TemporaryDirectory() as temporary:
        for what, seconds in measure(number, Path(temporary)).items():
            print(f"{what:15} {seconds * 1000:10.3f} ms")

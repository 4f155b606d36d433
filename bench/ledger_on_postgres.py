"""The claims a second that eight processes make in PostgreSQL, on a server of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

from measuring import Effort, Row
from postgres_server import is_installed, postgres_server

PROCESSES: Final = 8


def measure_claims(effort: Effort) -> list[Row]:
    """Measure a claim and its record, made by eight processes at once; nothing without a server."""
    if not is_installed():
        return []
    number = 1_000 if effort.judged else 20
    with postgres_server() as url:
        rounds = [_seconds_each(url, number) for _ in range(min(effort.rounds, 3))]
    median = statistics.median(rounds)
    case = f"PostgreSQL, a claim and its record, {PROCESSES} processes at once"
    return [Row(case, None, min(rounds), median)]


def _seconds_each(url: str, number: int) -> float:
    command = [sys.executable, __file__, url, str(number)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    started = time.perf_counter()
    for each in processes:
        assert each.stdin is not None
        each.stdin.close()
    for each in processes:
        assert each.wait() == 0
        assert each.stdout is not None
        each.stdout.close()
    return (time.perf_counter() - started) / (number * PROCESSES)


def _claim_and_record(url: str, number: int) -> None:
    from toolstile_hookspecs.services.ledger import Claim, RecordedResult
    from toolstile_hookspecs.support.process import new_id
    from toolstile_plugins.ledger.stores.postgres import PostgresStore

    now = datetime.now(UTC)
    with closing(PostgresStore(url)) as store:
        assert store.get("nothing") is None
        print("ready", flush=True)
        sys.stdin.read()
        for _ in range(number):
            effect_id = new_id()
            claim = Claim(f"bench:{effect_id}", "add", "h" * 64, effect_id, "s", "c", now)
            assert store.claim(claim, now=now) is None
            assert store.finish(claim.key, effect_id, RecordedResult("", b"42"), None)


if __name__ == "__main__":
    _claim_and_record(sys.argv[1], int(sys.argv[2]))

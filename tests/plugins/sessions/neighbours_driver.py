"""Decides calls of many sessions at the same time, of which some fail.

A program of its own, since it limits the size of its files, and interrupts itself. `FOLDER WAY`
prints which calls were kept and which failed, as their callers heard it. The ways: `raise` (some
callers raise in their transaction), `interrupt` (SIGINT, again and again), `full` (the disk).
"""

from __future__ import annotations

import json
import random
import resource
import signal
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from toolstile_hookspecs import ToolstileError
from toolstile_hookspecs.services.ledger import Claim, RecordedResult
from toolstile_hookspecs.testing.session_store import entry_of
from toolstile_plugins.ledger.stores.sqlite import SqliteStore
from toolstile_plugins.sessions.sqlite import SqliteSessions

CALLERS, CALLS = 8, 40
TEXT = '{"text": "%s"}' % ("x" * 3_000)
"""Changes of a session, for which a small disk has no room for long."""

kept: list[str] = []
failed: dict[str, list[str]] = defaultdict(list)


class Refused(Exception):
    """A caller changes its mind in its transaction."""


def decide(session: int, number: int, *, refuse: bool = False) -> None:
    """Claim a key, and decide on a session and the record of the key."""
    key, now = f"{session}-{number}", datetime.now(UTC)
    claim = Claim(key, "pay", "hash", f"effect {key}", f"s{session}", key, now)
    if ledger.claim(claim, now=now) is not None:
        raise AssertionError(key)
    with sessions.deciding(f"s{session}") as decision:
        # Numbers of a session follow one another: those that fail leave none out.
        number = len(decision.after(0)) + 1
        decision.append(entry_of(number, TEXT.replace("text", key)))
        result = RecordedResult("paid")
        if not ledger.finish_within(decision.connection, key, claim.effect_id, result, None):
            raise AssertionError(key)
        if refuse:
            raise Refused


def call(session: int, number: int, *, refuse: bool = False) -> None:
    key = f"{session}-{number}"
    try:
        decide(session, number, refuse=refuse)
    except (Refused, ToolstileError) as error:
        failed[key].append(type(error).__name__)
    else:
        kept.append(key)


def calls_of(session: int) -> None:
    for number in range(CALLS):
        call(session, number, refuse=way == "raise" and random.random() < 0.3)


def interrupt_main(ended: threading.Event) -> None:
    while not ended.wait(random.uniform(0.001, 0.01)):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def call_interrupted() -> None:
    """Decide calls of a session more; an interrupted one may be kept, or not."""
    ended = threading.Event()
    threading.Thread(target=interrupt_main, args=(ended,)).start()
    number = 0
    while number < CALLS:
        try:
            number += 1
            call(CALLERS, number)
        except KeyboardInterrupt:
            failed[f"{CALLERS}-{number}"].append("KeyboardInterrupt")
    while not ended.is_set():
        with suppress(KeyboardInterrupt):
            ended.set()


def main() -> None:
    with ThreadPoolExecutor(CALLERS) as pool:
        if way == "full":
            log = folder / "state.db-wal"
            for session in range(CALLERS):
                call(session, -1)
            resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 300_000, -1))
        calling = [pool.submit(calls_of, session) for session in range(CALLERS)]
        if way == "interrupt":
            call_interrupted()
        for each in calling:
            each.result()
    if way == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    for session in range(CALLERS):
        call(session, CALLS)
    sys.stdout.write(json.dumps({"kept": kept, "failed": failed}))


if __name__ == "__main__":
    folder, way = Path(sys.argv[1]), sys.argv[2]
    ledger, sessions = SqliteStore(folder / "state.db"), SqliteSessions(folder / "state.db")
    main()

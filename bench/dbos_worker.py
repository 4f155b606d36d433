"""A worker of DBOS, bare or ours, whose calls do nothing; ends when its input is closed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing

QUEUE = "bench"
POLL = 0.05
"""Seconds between looks at the queue, for both."""


def bare(url: str) -> None:
    """Serve a workflow as DBOS has it."""
    from dbos import DBOS, DBOSConfig

    config: DBOSConfig = {"name": "bench", "system_database_url": url, "log_level": "ERROR"}
    DBOS(config={**config, "application_version": "1", "use_listen_notify": False})

    @DBOS.workflow(name="call")
    def call(text: str) -> str:
        return text

    DBOS.listen_queues([QUEUE])
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=4, polling_interval_sec=POLL)
    print("ready", flush=True)
    sys.stdin.read()
    DBOS.destroy()


def ours(url: str) -> None:
    """Serve calls as a worker does."""
    from toolstile_hookspecs.services.dispatcher import (
        DispatchedCall,
        DispatchOutcome,
        DispatchState,
    )
    from toolstile_plugins.database.postgres_database import PostgresDatabase
    from toolstile_plugins.workers.dbos.dispatcher import DbosDispatcher

    class Runner:
        tools: Mapping[str, str | None] = {"call": "1.0.0"}

        def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:
            begin()
            return DispatchOutcome(DispatchState.RESULT, "", call.params)

        def end(self, key: str, reason: str) -> None:
            pass

    stop = threading.Event()

    def until_closed() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=until_closed, daemon=True).start()
    with (
        closing(PostgresDatabase(url)) as database,
        closing(DbosDispatcher(database, poll=POLL)) as dispatcher,
    ):
        print("ready", flush=True)
        dispatcher.serve(Runner(), concurrency=4, stop=stop)


if __name__ == "__main__":
    {"bare": bare, "ours": ours}[sys.argv[1]](sys.argv[2])

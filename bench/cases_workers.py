"""A call on a worker through DBOS, beside a workflow of DBOS that does nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from uuid import uuid4

from dbos_worker import QUEUE
from measuring import Block, Case, Effort, Probe, Row, compare, timed_on_loop
from postgres_server import is_installed, postgres_server

LIMIT: Final = 1.5
RESULT_POLL: Final = 0.01
"""Seconds between looks of a bare client at the result."""


def measure_workers(effort: Effort) -> list[Row]:
    """Measure round trips, one after the other; nothing without a server."""
    if not (is_installed() and find_spec("dbos")):
        return []
    with postgres_server() as url, _worker("bare", url), _worker("ours", url):
        floor = Probe("DBOS: a workflow that does nothing, queued", partial(_bare, url))
        call = Probe("a call on a worker through DBOS", partial(_ours, url))
        return compare([Case(call, floor, LIMIT)], effort)


@contextmanager
def _bare(url: str) -> Iterator[Block]:
    from dbos import DBOSClient, EnqueueOptions

    client = DBOSClient(system_database_url=url, application_name="bench")
    options: EnqueueOptions = {"queue_name": QUEUE, "workflow_name": "call", "app_version": "1"}

    async def call() -> None:
        handle = await client.enqueue_async({**options, "workflow_id": uuid4().hex}, "{}")
        await handle.get_result(polling_interval_sec=RESULT_POLL)

    try:
        with timed_on_loop(call) as block:
            yield block
    finally:
        client.destroy()


@contextmanager
def _ours(url: str) -> Iterator[Block]:
    from toolstile_hookspecs.services.dispatcher import DispatchedCall
    from toolstile_plugins.database.postgres_database import PostgresDatabase
    from toolstile_plugins.workers.dbos.dispatcher import DbosDispatcher

    with (
        closing(PostgresDatabase(url)) as database,
        closing(DbosDispatcher(database)) as dispatcher,
    ):

        async def call() -> None:
            await dispatcher.submit(DispatchedCall(uuid4().hex, "call", "1.0.0", "{}"))

        with timed_on_loop(call) as block:
            yield block


@contextmanager
def _worker(kind: str, url: str) -> Iterator[None]:
    command = [sys.executable, Path(__file__).with_name("dbos_worker.py"), kind, url]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdin is not None
    assert worker.stdout is not None
    with worker:
        assert worker.stdout.readline() == "ready\n"
        yield
        worker.stdin.close()

"""A worker that takes calls from DBOS until it is asked to stop."""

from __future__ import annotations

import json
import logging
from contextlib import closing, suppress
from datetime import UTC, datetime
from hashlib import blake2b
from threading import Event, Thread, Timer
from typing import Any, Final
from uuid import uuid4

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.dispatcher import CallRunner, DispatchedCall, run_once
from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.workers.dbos.tables import CANCELS, PostgresStarts, Worker
from toolstile_plugins.workers.dbos.waiting import (
    APPLICATION,
    CALLS,
    SCHEMA,
    VERSION,
    WORKFLOW,
    News,
    client_of,
    engine_of,
    explaining,
)
from toolstile_plugins.workers.outcomes import too_late
from toolstile_plugins.workers.settings import BEATS

TICK: Final = 0.25
"""Seconds until the worker notices that it must stop."""
_PATIENT: Final = 10**9
"""Seconds that DBOS waits for running calls: longer than any, because deadlines end them."""
_logger = logging.getLogger(__name__)


class DbosWorker:
    """A worker of a database, at most one in a process; see `DbosDispatcher` for its arguments."""

    def __init__(
        self,
        database: PostgresDatabase,
        runner: CallRunner,
        *,
        concurrency: int,
        dead_after: float,
        poll: float,
    ) -> None:
        # Because a call goes to any worker of its queue, workers of a queue have equal tools.
        alike = json.dumps([concurrency, sorted(runner.tools.items())])
        queue = f"toolstile-{blake2b(alike.encode(), digest_size=12).hexdigest()}"
        self._me = Worker(uuid4().hex, queue, runner.tools)
        self._database = database
        self._runner = runner
        self._concurrency = concurrency
        self._beat = dead_after / BEATS
        self._poll = poll
        self._starts = PostgresStarts(database, self._me.worker)
        self._news = News(database, CANCELS)

    def serve(self, stop: Event) -> None:
        """Run calls until `stop` is set and they have ended; raises `StateError`."""
        engine = engine_of(self._database, self._concurrency + 4)
        with closing(self._news):
            try:
                with explaining(self._database):
                    self._launch(engine)
                while not stop.is_set():
                    self._attend(stop)
                self._drain()
                with suppress(StateError), explaining(self._database):
                    while keys := self._starts.old():
                        # Before the marks, because a queued call without a mark would run.
                        client_of(engine).delete_workflows(keys)
                        self._starts.prune(keys)
            finally:
                engine.dispose()
                with suppress(StateError):
                    self._starts.remove(self._me.worker)

    def _launch(self, engine: Any) -> None:
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_engine": engine,
            "dbos_system_schema": SCHEMA,
            "application_version": VERSION,
            "executor_id": self._me.worker,
            "use_listen_notify": False,
            "serializer": DBOSPortableJSONSerializer(),
            "enable_otlp": False,
            "log_level": "ERROR",
        }
        DBOS(config=config)

        @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
        def toolstile_call(text: str) -> None:
            self._run(CALLS.validate_json(text))

        DBOS.listen_queues([self._me.queue])
        DBOS.launch()
        DBOS.register_queue(
            self._me.queue, worker_concurrency=self._concurrency, polling_interval_sec=self._poll
        )

    def _attend(self, stop: Event, *, takes_calls: bool = True) -> None:
        """Send a heartbeat, then end cancelled calls until the next heartbeat is due."""
        try:
            self._starts.say_alive(self._me._replace(takes_calls=takes_calls))
            self._news.listen()
            self._end_cancelled()
            left = self._beat
            while left > 0 and not stop.is_set():
                if self._news.wait(min(left, TICK)):
                    self._end_cancelled()
                left -= TICK
        except Exception as error:  # noqa: BLE001 - hosts report a lost database
            _logger.warning("This worker could not say that it is alive: %s", error)
            self._news.close()
            stop.wait(self._beat)

    def _drain(self) -> None:
        ended = Event()

        def destroy() -> None:
            DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=_PATIENT)
            ended.set()

        Thread(target=destroy, name="toolstile-drain").start()
        while not ended.is_set():
            self._attend(ended, takes_calls=False)

    def _end_cancelled(self) -> None:
        for key in self._starts.cancelled(self._me.worker):
            self._runner.end(key, "It was cancelled, so its worker ended it.")

    def _run(self, call: DispatchedCall) -> None:
        now = datetime.now(UTC)
        if call.begin_by is not None and call.begin_by < now:
            workers = self._starts.workers(self._beat * BEATS).values()
            late = too_late(call.tool, [worker.tools for worker in workers])
            self._starts.begin(call.key, uuid4().hex, outcome=late)
            return
        timer: Timer | None = None
        if call.deadline is not None:
            reason = "It took longer than it may, so its worker ended it."
            seconds = (call.deadline - now).total_seconds()
            timer = Timer(max(seconds, 0), self._runner.end, (call.key, reason))
            timer.daemon = True
            timer.start()
        try:
            run_once(self._starts, call, self._runner)
        except BaseException:
            self._starts.give_up(call.key)
            raise
        finally:
            if timer is not None:
                timer.cancel()

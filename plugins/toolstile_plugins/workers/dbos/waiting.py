"""The calls that a host waits for, and DBOS as their queue."""

from __future__ import annotations

import random
import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import psycopg
import sqlalchemy
from dbos import (
    DBOSClient,
    EnqueueOptions,
    WorkflowSerializationFormat,
    WorkflowStatus,
    error as dbos_errors,
)
from pydantic import TypeAdapter
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.dispatcher import (
    DispatchedCall,
    DispatchOutcome,
    DispatchState,
    outcome_of,
)
from toolstile_plugins.database.postgres_database import PostgresDatabase, lock_of
from toolstile_plugins.workers.dbos.tables import (
    OUTCOMES,
    FoundMark,
    PostgresStarts,
    Worker,
    news_of,
)
from toolstile_plugins.workers.outcomes import other_version, too_late

if TYPE_CHECKING:
    from toolstile_plugins.database.bounded_connection import BoundedConnection as Connection

APPLICATION: Final = "toolstile"
WORKFLOW: Final = "toolstile_call"
VERSION: Final = "1"
"""The version of the workflow. The queue of a worker identifies the worker's tools."""
SCHEMA: Final = "toolstile_dbos"
CALLS: Final = TypeAdapter(DispatchedCall)
"""Calls as JSON."""
_MIDDLE: Final = 2**30
"""The DBOS priority of calls with priority 0: 1 comes first and 2 ** 31 - 1 last."""


def engine_of(database: PostgresDatabase, connections: int) -> sqlalchemy.Engine:
    """Return an engine for DBOS that opens its connections as `PostgresDatabase` does."""

    def connect() -> Any:
        connection = database.connect()
        connection.autocommit = False
        return connection

    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=connect, pool_size=connections, pool_pre_ping=True
    )


def client_of(engine: sqlalchemy.Engine) -> DBOSClient:
    """Return a client that connects when it is used, without retries."""
    return DBOSClient(
        system_database_engine=engine,
        dbos_system_schema=SCHEMA,
        application_name=APPLICATION,
        lazy=True,
        retry_connection_errors=False,
    )


@contextmanager
def explaining(database: PostgresDatabase) -> Generator[None]:
    """Raise `StateError` if DBOS or its database cannot be used."""
    try:
        yield
    except DBAPIError as error:
        cause = error.orig if isinstance(error.orig, psycopg.Error) else error
        raise database.explained(cause) from error
    except (dbos_errors.DBOSException, SQLAlchemyError, psycopg.Error) as error:
        raise database.explained(error) from error


LOOKS: Final = 4
"""Checks of all calls within `dead_after`."""
TICK: Final = 0.25
"""Seconds until the thread notices the close."""
CONNECTIONS: Final = 2
"""Connections to DBOS: for the watching thread and for the submitting thread."""
_MISSING: Final = object()
_ENDED: Final = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


class _Waiting(NamedTuple):
    call: DispatchedCall
    told: Future[DispatchOutcome]


class WaitingCalls:
    """The calls that this process waits for, and the thread that watches them."""

    def __init__(
        self, database: PostgresDatabase, starts: PostgresStarts, dead_after: float
    ) -> None:
        self._database = database
        self._starts = starts
        self._dead_after = dead_after
        self._news = News(database, OUTCOMES)
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Waiting]] = {}
        self._closed = threading.Event()
        self._engine = engine_of(database, CONNECTIONS)
        self._client = client_of(self._engine)
        self._thread = threading.Thread(target=self._watch, name="toolstile-waiting", daemon=True)
        self._thread.start()

    def add(self, call: DispatchedCall) -> Future[DispatchOutcome]:
        """Submit a call; `StateError` if that fails and the call was not submitted before."""
        told: Future[DispatchOutcome] = Future()
        # News may come before this has ended.
        with self._lock:
            waiting = self._waiting.setdefault(call.key, [])
            is_new = not waiting
            waiting.append(_Waiting(call, told))
        try:
            self._answer_known([call.key])
        except StateError:
            # A call that was submitted before may run, and other callers wait for it.
            if is_new:
                self._forget(call.key)
                raise
        # From here on the call may run, so the thread watches it despite a failure.
        with suppress(StateError):
            # Without its status from DBOS, because queueing a queued call changes nothing.
            self._look([call], {})
        return told

    def close(self) -> None:
        """End the thread, and give waiting callers the outcome `UNKNOWN`."""
        self._closed.set()
        self._thread.join()
        self._leave("The host was closed while it waited.")
        self._client.destroy()
        self._engine.dispose()

    # --- the thread

    def _watch(self) -> None:
        failing: datetime | None = None
        while not self._closed.is_set():
            try:
                self._watch_once()
                failing = None
            except Exception as error:  # noqa: BLE001 - the waiting callers get it
                self._news.close()
                failing = failing or datetime.now(UTC)
                if (datetime.now(UTC) - failing).total_seconds() > self._dead_after:
                    self._leave(str(error))
                self._closed.wait(TICK)
        self._news.close()

    def _watch_once(self) -> None:
        """Check all calls once, then answer calls with news until the next check."""
        self._news.listen()
        with self._lock:
            calls = [waiting[0].call for waiting in self._waiting.values()]
        if calls:
            self._look(calls)
        left = self._dead_after / LOOKS
        while left > 0 and not self._closed.is_set():
            told = self._news.wait(min(left, TICK))
            left -= TICK
            with self._lock:
                keys = [key for key in self._waiting if told and news_of(key) in told]
            if keys:
                self._answer_known(keys)

    # --- looking after calls

    def _look(
        self, calls: Sequence[DispatchedCall], statuses: Mapping[str, WorkflowStatus] | None = None
    ) -> None:
        found = self._answer_known([call.key for call in calls])
        waiting: list[DispatchedCall] = []
        for call in calls:
            mark = found.get(call.key)
            if mark is not None and (
                mark.mark.outcome is not None or mark.is_alive(self._dead_after)
            ):
                continue
            if mark is not None and not call.repeatable:
                self._answer(call.key, outcome_of(mark.mark))
            elif call.begin_by is not None and call.begin_by < datetime.now(UTC):
                there = self._starts.workers(self._dead_after).values()
                self._refuse(call, mark, too_late(call.tool, [each.tools for each in there]))
            else:
                waiting.append(call)
        workers = self._starts.workers(self._dead_after) if waiting else {}
        if workers:
            with explaining(self._database):
                known = self._statuses(waiting) if statuses is None else statuses
                self._have_run(waiting, found, workers, known)

    def _answer_known(self, keys: Sequence[str]) -> Mapping[str, FoundMark]:
        found = self._starts.find(keys)
        for key, mark in found.items():
            if mark.mark.outcome is not None:
                self._answer(key, mark.mark.outcome)
        return found

    def _have_run(
        self,
        calls: Sequence[DispatchedCall],
        found: Mapping[str, FoundMark],
        workers: Mapping[str, Worker],
        statuses: Mapping[str, WorkflowStatus],
    ) -> None:
        """Put calls that do not run on queues of living workers."""
        lost: list[DispatchedCall] = []
        for call in calls:
            status = statuses.get(call.key)
            if status is None:
                if (queue := self._queue_for(call, workers, found)) is not None:
                    options: EnqueueOptions = {
                        "queue_name": queue,
                        "workflow_name": WORKFLOW,
                        # A key that is already on a queue stays there.
                        "workflow_id": call.key,
                        "app_version": VERSION,
                        "priority": min(max(_MIDDLE - call.priority, 1), 2 * _MIDDLE - 1),
                        # Because DBOS would use pickle otherwise.
                        "serialization_type": WorkflowSerializationFormat.PORTABLE,
                    }
                    self._client.enqueue(options, CALLS.dump_json(call).decode())
            elif status.status in _ENDED:
                text = f"DBOS ended it before it began: {status.status}."
                outcome = DispatchOutcome(DispatchState.NOT_RUN, text)
                self._refuse(call, found.get(call.key), outcome)
            elif _is_lost(status, workers):
                lost.append(call)
        if not lost:
            return
        # One host at a time, because a second would requeue a call that already runs again.
        with self._database.writing(lock_of("toolstile", "take over")) as transaction:
            transaction.send()
            statuses = self._statuses(lost)
            for call in lost:
                status = statuses.get(call.key)
                if status is not None and _is_lost(status, workers):
                    queue = self._queue_for(call, workers, found)
                    if queue is not None:
                        self._client.resume_workflow(call.key, queue_name=queue)

    def _queue_for(
        self, call: DispatchedCall, workers: Mapping[str, Worker], found: Mapping[str, FoundMark]
    ) -> str | None:
        """Return a queue for a call; None if the call must wait, or was refused."""
        taking = [worker for worker in workers.values() if worker.takes_calls]
        fitting = [
            worker for worker in taking if worker.tools.get(call.tool, _MISSING) == call.version
        ]
        if fitting:
            return random.choice(fitting).queue  # noqa: S311 - no secret
        versions = {worker.tools[call.tool] for worker in taking if call.tool in worker.tools}
        if versions:
            self._refuse(
                call, found.get(call.key), other_version(call.tool, call.version, versions)
            )
        return None

    def _statuses(self, calls: Sequence[DispatchedCall]) -> Mapping[str, WorkflowStatus]:
        keys = [call.key for call in calls]
        rows = self._client.list_workflows(workflow_ids=keys, load_input=False, load_output=False)
        return {row.workflow_id: row for row in rows}

    # --- answers

    def _refuse(
        self, call: DispatchedCall, mark: FoundMark | None, outcome: DispatchOutcome
    ) -> None:
        standing = self._starts.begin(call.key, uuid4().hex, outcome=outcome)
        if standing is None:
            self._answer(call.key, outcome)
        elif mark is not None or standing.outcome is not None:
            self._answer(call.key, outcome_of(standing))

    def _answer(self, key: str, outcome: DispatchOutcome) -> None:
        for waiting in self._forget(key):
            if waiting.told.set_running_or_notify_cancel():
                waiting.told.set_result(outcome)

    def _leave(self, reason: str) -> None:
        with self._lock:
            keys = list(self._waiting)
        for key in keys:
            self._answer(key, DispatchOutcome(DispatchState.UNKNOWN, reason))

    def _forget(self, key: str) -> list[_Waiting]:
        with self._lock:
            return self._waiting.pop(key, [])


def _is_lost(status: WorkflowStatus, workers: Mapping[str, Worker]) -> bool:
    """Return whether no living worker has a call or will take it."""
    if status.status == "PENDING":
        return status.executor_id not in workers
    return all(
        worker.queue != status.queue_name or not worker.takes_calls for worker in workers.values()
    )


POOLED_PAUSE: Final = 0.1
"""Seconds between checks if a pooler forwards no notifications."""


class News:
    """The notifications of a channel, on a separate connection; for one thread."""

    def __init__(self, database: PostgresDatabase, channel: str) -> None:
        self._database = database
        self._channel = channel
        self._connection: Connection | None = None

    def listen(self) -> None:
        """Listen from now on, unless it listens already."""
        if self._connection is None:
            connection = self._database.connect()
            connection.execute(f"LISTEN {self._channel}".encode())
            self._connection = connection

    def wait(self, seconds: float) -> set[str]:
        """Wait for notifications, and return their payloads."""
        connection = self._connection
        assert connection is not None  # noqa: S101 - `listen` comes first
        if connection.prepare_threshold is None:
            seconds = min(seconds, POOLED_PAUSE)
        return {told.payload for told in connection.notifies(timeout=seconds, stop_after=1)}

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

"""Calls on workers through DBOS: what hosts use, and what workers serve."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Final

from toolstile_hookspecs.services.dispatcher import CallRunner, DispatchedCall, DispatchOutcome
from toolstile_hookspecs.services.start_marks import WITHDRAWN, outcome_of, withdraw
from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.workers.dbos.tables import PostgresStarts
from toolstile_plugins.workers.dbos.waiting import WaitingCalls
from toolstile_plugins.workers.dbos.worker import DbosWorker

DEAD_AFTER: Final = 10.0
POLL: Final = 0.05


class DbosDispatcher:
    """Has calls run on workers through queues of DBOS; implements `Dispatcher`.

    DBOS hands each call to a worker, and keeps it where a worker dies. Whether a call has begun,
    and what became of it, is in tables beside: see `PostgresStarts`. A host that waits has the
    calls of a dead worker taken over.

    Args:
        database: The database, the same for all hosts and workers.
        dead_after: Seconds of silence after which a worker counts as dead; the same for all.
        poll: Seconds between looks of a worker at its queue.

    Raises:
        ConfigurationError: The extra `dbos` is not installed.
    """

    def __init__(
        self, database: PostgresDatabase, *, dead_after: float = DEAD_AFTER, poll: float = POLL
    ) -> None:
        self._database = database
        self._dead_after = dead_after
        self._poll = poll
        self._starts = PostgresStarts(database)
        self._waiting = WaitingCalls(database, self._starts, dead_after)
        # One thread, so that they come to their queue in the order in which they were submitted.
        self._submitting = ThreadPoolExecutor(1, thread_name_prefix="toolstile-submit")

    async def submit(self, call: DispatchedCall) -> DispatchOutcome:
        """Have a call run, and wait for its outcome."""
        loop = asyncio.get_running_loop()
        told = await loop.run_in_executor(self._submitting, self._waiting.add, call)
        return await asyncio.wrap_future(told)

    def find(self, key: str) -> DispatchOutcome | None:
        """Return the outcome of a call that was submitted, for those who ask late."""
        found = self._starts.find([key]).get(key)
        if found is None or (found.mark.outcome is None and self._waiting.is_alive(found)):
            return None
        return outcome_of(found.mark)

    def withdraw(self, key: str) -> DispatchOutcome | None:
        """Keep a call from beginning, whether it was submitted or may still be."""
        return WITHDRAWN if withdraw(self._starts, key) is None else self.find(key)

    def cancel(self, key: str) -> DispatchOutcome | None:
        """Keep a call from beginning, and have its handler ended where it runs."""
        outcome = self.withdraw(key)
        if outcome is None:
            self._starts.cancel(key)
        return outcome

    def heartbeat(self, key: str) -> float | None:
        """Return how long ago, in seconds, the worker of a call was alive; None without one."""
        found = self._starts.find([key]).get(key)
        return None if found is None or found.mark.outcome is not None else found.age

    def serve(self, runner: CallRunner, *, concurrency: int, stop: Event) -> None:
        """Run calls in this process until `stop` is set and those that run have ended."""
        DbosWorker(
            self._database,
            runner,
            concurrency=concurrency,
            dead_after=self._dead_after,
            poll=self._poll,
        ).serve(stop)

    def close(self) -> None:
        """Give back what it holds; calls stay as they are."""
        self._submitting.shutdown()
        self._waiting.close()

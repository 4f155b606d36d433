"""The dispatcher for hosts and workers that share a PostgreSQL database, through DBOS."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolstile_hookspecs import ConfigurationError, HostHandle
from toolstile_hookspecs.services.dispatcher import (
    WITHDRAWN,
    CallRunner,
    DispatchedCall,
    DispatchOutcome,
    outcome_of,
    withdraw,
)
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.database.stores import DatabaseStores
from toolstile_plugins.workers.dbos.tables import PostgresStarts
from toolstile_plugins.workers.settings import WorkersSettings

if TYPE_CHECKING:
    from toolstile_plugins.database.settings import DatabaseSettings
    from toolstile_plugins.workers.dbos.waiting import WaitingCalls


class DbosOptions(BaseModel):
    """The options of DBOS: the table `[plugins.workers.options]`.

    Args:
        poll: Seconds between a worker's polls of its queue.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    poll: Annotated[float, Field(gt=0, le=60)] = 0.05


class DbosDispatcher:
    """Runs calls on workers through queues of DBOS; implements `Dispatcher`.

    DBOS hands each call to a worker, and keeps the call if the worker dies. `PostgresStarts`
    records whether a call has begun, and its outcome. A host that waits for a call of a dead
    worker gives the call to another worker.

    Args:
        database: The database, the same for all hosts and workers.
        dead_after: Seconds of silence after which a worker counts as dead; the same for all.
        poll: Seconds between a worker's polls of its queue.

    Raises:
        ConfigurationError: The extra `postgres` is not installed.
    """

    def __init__(
        self, database: PostgresDatabase, *, dead_after: float = 10.0, poll: float = 0.05
    ) -> None:
        if find_spec("dbos") is None:
            raise ConfigurationError(
                f"Calls on workers through DBOS need dbos. {extra_remedy('postgres')}."
            )
        self._database = database
        self._dead_after = dead_after
        self._poll = poll
        self._starts = PostgresStarts(database)
        # One thread, because calls must reach their queue in the order of their submission.
        self._submitting = ThreadPoolExecutor(1, thread_name_prefix="toolstile-submit")

    @cached_property
    def _waiting(self) -> WaitingCalls:
        from toolstile_plugins.workers.dbos.waiting import WaitingCalls  # late: DBOS is slow

        return WaitingCalls(self._database, self._starts, self._dead_after)

    async def submit(self, call: DispatchedCall) -> DispatchOutcome:
        loop = asyncio.get_running_loop()
        told = await loop.run_in_executor(self._submitting, lambda: self._waiting.add(call))
        return await asyncio.wrap_future(told)

    def find(self, key: str) -> DispatchOutcome | None:
        found = self._starts.find([key]).get(key)
        if found is None or (found.mark.outcome is None and found.is_alive(self._dead_after)):
            return None
        return outcome_of(found.mark)

    def withdraw(self, key: str) -> DispatchOutcome | None:
        return WITHDRAWN if withdraw(self._starts, key) is None else self.find(key)

    def cancel(self, key: str) -> DispatchOutcome | None:
        outcome = self.withdraw(key)
        if outcome is None:
            self._starts.cancel(key)
        return outcome

    def heartbeat(self, key: str) -> float | None:
        """Return the seconds since the last heartbeat of a call's worker; None without a worker."""
        found = self._starts.find([key]).get(key)
        return None if found is None or found.mark.outcome is not None else found.age

    def serve(self, runner: CallRunner, *, concurrency: int, stop: Event) -> None:
        """Run calls in this process until `stop` is set and the running calls have ended."""
        from toolstile_plugins.workers.dbos.worker import DbosWorker  # late: DBOS is slow

        DbosWorker(
            self._database,
            runner,
            concurrency=concurrency,
            dead_after=self._dead_after,
            poll=self._poll,
        ).serve(stop)

    def close(self) -> None:
        """Close the connections; calls stay as they are."""
        self._submitting.shutdown()
        if "_waiting" in vars(self):
            self._waiting.close()
        # Again, because requests after the close by its plugin have opened new connections.
        self._database.close()


def dbos_dispatcher(settings: WorkersSettings, host: HostHandle) -> DbosDispatcher:
    """Return the dispatcher of the host's database; `ConfigurationError` if the host has none."""
    database: DatabaseSettings | None = host.settings("database")
    if database is None or database.url is None:
        raise ConfigurationError(
            "plugins.workers.dispatcher: dbos needs a database. Name one in the configuration, as "
            "url in [plugins.database]; then retry."
        )
    try:
        options = DbosOptions.model_validate(settings.options)
    except ValidationError as error:
        fault = error.errors()[0]
        raise ConfigurationError(
            f"plugins.workers.options: {'.'.join(map(str, fault['loc']))}: {fault['msg']}."
        ) from error
    # The pool of the host, because its size limits the connections of the process.
    stores: DatabaseStores = host.state("database") or DatabaseStores(database)
    return DbosDispatcher(stores.database(), dead_after=settings.lease, poll=options.poll)

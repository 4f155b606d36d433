"""The settings of the database, the table `[plugins.database]`, and the stores of a host in it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

if TYPE_CHECKING:
    from toolstile_plugins.database.postgres_database import PostgresDatabase
    from toolstile_plugins.database.session_store import PostgresSessions
    from toolstile_plugins.ledger.stores.postgres import PostgresStore

# PostgreSQL takes less than a millisecond for no limit at all.
Seconds = Annotated[float, Field(ge=0.001, le=3600)]


class DatabaseSettings(BaseModel):
    """The PostgreSQL database in which hosts on many machines share what they keep.

    Args:
        url: The connection string; None for no database. Needs the extra `postgres`.
        pool_size: The most connections of one process; one for each call that is decided at once.
        statement_timeout: Seconds after which the server gives up a statement.
        lock_timeout: Seconds that a statement waits for a lock, and a transaction does nothing.
        lease: Seconds after which the claim of a silent process is given up.

    Example:
        >>> DatabaseSettings(url="postgresql://shop:secret@db/shop").url
        SecretStr('**********')
    """

    model_config = ConfigDict(extra="forbid")

    url: SecretStr | None = None
    pool_size: Annotated[int, Field(ge=2, le=1000)] = 8
    statement_timeout: Seconds = 15.0
    lock_timeout: Seconds = 10.0
    lease: Seconds = 30.0

    _database: PostgresDatabase | None = PrivateAttr(default=None)
    _sessions: PostgresSessions | None = PrivateAttr(default=None)
    _ledger: PostgresStore | None = PrivateAttr(default=None)
    _lock: threading.RLock = PrivateAttr(default_factory=threading.RLock)

    def database(self) -> PostgresDatabase:
        """Return the one database of these settings, which have an address."""
        with self._lock:
            if self._database is None:
                # Late: few hosts have one.
                from toolstile_plugins.database.postgres_database import PostgresDatabase

                assert self.url is not None  # noqa: S101 - asked for only where there is one
                self._database = PostgresDatabase(
                    self.url.get_secret_value(),
                    pool_size=self.pool_size,
                    statement_timeout=self.statement_timeout,
                    lock_timeout=self.lock_timeout,
                )
            return self._database

    def sessions(self) -> PostgresSessions:
        """Return the one store of sessions of these settings."""
        with self._lock:
            if self._sessions is None:
                from toolstile_plugins.database.session_store import PostgresSessions

                self._sessions = PostgresSessions(self.database())
            return self._sessions

    def ledger(self) -> PostgresStore:
        """Return the one store of effects of these settings."""
        with self._lock:
            if self._ledger is None:
                from toolstile_plugins.ledger.stores.postgres import PostgresStore

                self._ledger = PostgresStore(self.database(), lease=self.lease)
            return self._ledger

    def close(self) -> None:
        """Close the connections, if there were any."""
        if self._sessions is not None:
            self._sessions.close()
        if self._database is not None:
            self._database.close()

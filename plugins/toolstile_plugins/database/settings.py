"""The settings of the database, the table `[plugins.database]`, and the stores of a host in it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from toolstile_hookspecs import Durability

if TYPE_CHECKING:
    from toolstile_plugins.database.postgres_database import PostgresDatabase
    from toolstile_plugins.database.session_store import FileSessions, PostgresSessions
    from toolstile_plugins.ledger.stores.memory import MemoryStore
    from toolstile_plugins.ledger.stores.postgres import PostgresStore

# PostgreSQL takes less than a millisecond for no limit at all.
Seconds = Annotated[float, Field(ge=0.001, le=3600)]


class DatabaseSettings(BaseModel):
    """The one place of sessions, effects, questions and queued calls.

    Args:
        url: The connection string of a PostgreSQL database, for hosts on many machines. Needs the
            extra `postgres`.
        path: A SQLite file, for the hosts of one machine.
        memory: Whether effects stay in memory, so that no file is made for them.
        durability: The host's, for the file.
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
    path: Path | None = None
    memory: bool = False
    durability: Durability = "power"
    pool_size: Annotated[int, Field(ge=2, le=1000)] = 8
    statement_timeout: Seconds = 15.0
    lock_timeout: Seconds = 10.0
    lease: Seconds = 30.0

    _database: PostgresDatabase | None = PrivateAttr(default=None)
    _sessions: PostgresSessions | FileSessions | None = PrivateAttr(default=None)
    _ledger: PostgresStore | MemoryStore | None = PrivateAttr(default=None)
    _lock: threading.RLock = PrivateAttr(default_factory=threading.RLock)

    @model_validator(mode="after")
    def _name_one_place(self) -> DatabaseSettings:
        if (self.url is not None) + (self.path is not None) + self.memory > 1:
            raise ValueError("url, path and memory each name a place; keep one of them")
        return self

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

    def sessions(self) -> PostgresSessions | FileSessions:
        """Return the one store of sessions of these settings."""
        with self._lock:
            if self._sessions is None:
                from toolstile_plugins.database.session_store import FileSessions, PostgresSessions

                self._sessions = (
                    PostgresSessions(self.database())
                    if self.path is None
                    else FileSessions(self.path, durability=self.durability)
                )
            return self._sessions

    def ledger(self) -> PostgresStore | MemoryStore:
        """Return the one store of effects of these settings."""
        with self._lock:
            if self._ledger is None and self.memory:
                from toolstile_plugins.ledger.stores.memory import MemoryStore

                self._ledger = MemoryStore()
            elif self._ledger is None:
                from toolstile_plugins.ledger.stores.postgres import PostgresStore

                self._ledger = PostgresStore(self.database(), lease=self.lease)
            return self._ledger

    def close(self) -> None:
        """Close the connections, if there were any."""
        if self._sessions is not None:
            self._sessions.close()
        if self._database is not None:
            self._database.close()

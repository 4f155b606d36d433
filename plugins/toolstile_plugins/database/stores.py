"""The stores of one host in its database."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from toolstile_plugins.database.settings import DatabaseSettings

if TYPE_CHECKING:
    from toolstile_plugins.database.postgres_database import PostgresDatabase
    from toolstile_plugins.database.session_store import FileSessions, PostgresSessions
    from toolstile_plugins.ledger.stores.memory import MemoryStore
    from toolstile_plugins.ledger.stores.postgres import PostgresStore


class DatabaseStores:
    """The database of one host and its stores, each made at its first use."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._database: PostgresDatabase | None = None
        self._sessions: PostgresSessions | FileSessions | None = None
        self._ledger: PostgresStore | MemoryStore | None = None

    def database(self) -> PostgresDatabase:
        """Return the one database; the settings have a url."""
        with self._lock:
            if self._database is None:
                # Late: few hosts have one.
                from toolstile_plugins.database.postgres_database import PostgresDatabase

                assert self._settings.url is not None  # noqa: S101 - only offered with a url
                self._database = PostgresDatabase(
                    self._settings.url.get_secret_value(),
                    pool_size=self._settings.pool_size,
                    statement_timeout=self._settings.statement_timeout,
                    lock_timeout=self._settings.lock_timeout,
                )
            return self._database

    def sessions(self) -> PostgresSessions | FileSessions:
        """Return the one store of sessions."""
        with self._lock:
            if self._sessions is None:
                from toolstile_plugins.database.session_store import FileSessions, PostgresSessions

                self._sessions = (
                    PostgresSessions(self.database())
                    if self._settings.path is None
                    else FileSessions(self._settings.path, durability=self._settings.durability)
                )
            return self._sessions

    def ledger(self) -> PostgresStore | MemoryStore:
        """Return the one store of effects."""
        with self._lock:
            if self._ledger is None and self._settings.memory:
                from toolstile_plugins.ledger.stores.memory import MemoryStore  # loads the ledger

                self._ledger = MemoryStore()
            elif self._ledger is None:
                from toolstile_plugins.ledger.stores.postgres import PostgresStore

                self._ledger = PostgresStore(self.database(), lease=self._settings.lease)
            return self._ledger

    def close(self) -> None:
        """Close the connections, if there were any."""
        if self._sessions is not None:
            self._sessions.close()
        if self._database is not None:
            self._database.close()

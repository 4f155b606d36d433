"""A dispatcher of the tests, which forked processes make for themselves."""

from __future__ import annotations

from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.workers.dbos.dispatcher import DbosDispatcher


class WithDatabase(DbosDispatcher):
    """With a database of its own, which in a host is the plugin's."""

    def __init__(self, url: str) -> None:
        super().__init__(PostgresDatabase(url), dead_after=1.5, poll=0.02)

    def close(self) -> None:
        super().close()
        self._database.close()

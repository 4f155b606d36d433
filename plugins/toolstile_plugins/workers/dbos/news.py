"""News that PostgreSQL passes on, so that nobody has to ask again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolstile_plugins.database.postgres_database import PostgresDatabase

if TYPE_CHECKING:
    from toolstile_plugins.database.bounded_connection import BoundedConnection as Connection

POOLED_PAUSE: Final = 0.1
"""Seconds between looks where a pooler passes on no news."""


class News:
    """The news of a channel, on a connection of its own; for one thread.

    Args:
        database: The database.
        channel: The channel.
    """

    def __init__(self, database: PostgresDatabase, channel: str) -> None:
        self._database = database
        self._channel = channel
        self._connection: Connection | None = None

    def listen(self) -> bool:
        """Listen from now on; returns whether this is new, so that news may have been missed."""
        if self._connection is not None:
            return False
        connection = self._database.connect()
        connection.execute(f"LISTEN {self._channel}".encode())
        self._connection = connection
        return True

    def wait(self, seconds: float) -> set[str]:
        """Wait for news so long; returns what was told."""
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

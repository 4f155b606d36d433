"""Connections to PostgreSQL that wait for a limited time, since a server may not answer."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import generators, waiting
from psycopg.abc import Params, PQGen

from toolstile_hookspecs.support.process import deferred_interrupts

Cursor = psycopg.Cursor[tuple[Any, ...]]
T = TypeVar("T")


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose every wait has an end.

    Attributes:
        patience: Seconds for a statement; the server itself gives one up before.

    Raises:
        psycopg.OperationalError: When the server does not answer; the connection must be closed.
    """

    patience = 15.0

    def execute(self, query: Any, params: Params | None = None, **options: Any) -> Cursor:
        """Run a statement; also what it cannot take is told by an error of the library."""
        try:
            return super().execute(query, params, **options)
        except (UnicodeError, OverflowError) as error:
            raise psycopg.DataError(str(error)) from error

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """Wait as the library does, for a limited time; interrupted, until the server is done."""
        try:
            bounded, options = _bounded(gen, self.patience), {"interval": 0.1, **options}
            return waiting.wait(bounded, self.pgconn.socket, *args, **options)
        except (KeyboardInterrupt, SystemExit):
            # Else the server could carry it out after it was looked for in vain.
            with deferred_interrupts(), suppress(psycopg.Error):
                self.cancel_safe(timeout=5)
                super().wait(_bounded(generators.fetch_many(self.pgconn), self.patience))
            raise


def _bounded(gen: PQGen[T], patience: float) -> PQGen[T]:
    until = time.monotonic() + patience
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > until:
                raise psycopg.OperationalError(f"it has not answered for {patience:g} seconds")
            wanted = gen.send(ready)
    except StopIteration as done:
        result: T = done.value
        return result

"""Connections to PostgreSQL with a time limit for each wait, because a server may not answer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import psycopg
from psycopg import generators, waiting
from psycopg.abc import PQGen

from toolstile_hookspecs.support.process import deferred_interrupts

T = TypeVar("T")

REFUSED: Final = "TS001"
"""The SQLSTATE of the function `toolstile_refuse`, among the tables of sessions."""
_UNFIT: Final = re.compile("[\0\ud800-\udfff]")


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection with a time limit of `patience` seconds, longer than the server's own.

    A caller that has only the connection finds the open transaction as `within`.

    Raises:
        psycopg.OperationalError: The server does not answer; the connection is closed.
    """

    patience = 15.0
    within: Transaction | None = None

    def run(self, statements: Sequence[Statement]) -> None:
        """Execute statements in one round trip; after a failure, the server skips the rest."""
        failed: BaseException | None = None
        try:
            with self.pipeline() if len(statements) > 1 else nullcontext():
                try:
                    for each in statements:
                        query = each.query.replace("?", "%s").encode()
                        each.cursor = self.execute(query, each.values or None, binary=True)
                except psycopg.Error as error:
                    # Raised later, because the pipeline would log the error.
                    failed = error
        except psycopg.Error as error:
            failed = failed or error
        if isinstance(failed, psycopg.errors.PipelineAborted):
            # This error only reports the skipped statements; its context has the cause.
            failed = failed.__context__ or failed
        if isinstance(failed, psycopg.Error) and failed.sqlstate == REFUSED:
            skipped = (each for each in statements if not (each.cursor and each.cursor.pgresult))
            failed = next(skipped).refusal or failed
        if failed is not None:
            raise failed

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """Wait for a limited time; after an interrupt, cancel and wait until the server is done."""
        try:
            options = {"interval": 0.1, **options}
            return waiting.wait(self._bounded(gen), self.pgconn.socket, *args, **options)
        except (KeyboardInterrupt, SystemExit):
            # Otherwise the server could commit after a check found no result.
            with deferred_interrupts(), suppress(psycopg.Error):
                self.cancel_safe(timeout=5)
                super().wait(self._bounded(generators.fetch_many(self.pgconn)))
            raise

    def _bounded(self, gen: PQGen[T]) -> PQGen[T]:
        until = time.monotonic() + self.patience
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > until:
                    # Otherwise the end of a pipeline would wait for the same time again.
                    self.pgconn.finish()
                    with suppress(psycopg.Error):
                        gen.close()
                    raise psycopg.OperationalError(
                        f"it has not answered for {self.patience:g} seconds"
                    )
                wanted = gen.send(ready)
        except StopIteration as done:
            result: T = done.value
            return result


@dataclass(slots=True)
class Statement:
    """A statement that is sent at the latest when its result is used.

    `refusal` is raised if the statement makes the server refuse the transaction.
    """

    query: str
    values: Sequence[Any] = ()
    refusal: Exception | None = None
    send: Callable[[], object] = lambda: None
    cursor: Any = None

    def __post_init__(self) -> None:
        if any(isinstance(each, str) and _UNFIT.search(each) for each in self.values):
            # Refused now, because an error of the server would fail the other waiting statements.
            raise psycopg.DataError("text has neither NUL characters nor lone surrogates")

    @property
    def rowcount(self) -> int:
        """The number of rows found or changed."""
        return int(self._result().rowcount)

    def fetchall(self) -> list[Any]:
        """Return the rows; an empty list for a statement without a result."""
        return list(self._result().fetchall() if self._result().description else ())

    def _result(self) -> Any:
        if self.cursor is None:
            self.send()
        return self.cursor


class Transaction:
    """Statements that are sent together when a result is used, and at the commit.

    `begin` executes the first statements, on another connection if an idle one was lost.
    """

    def __init__(self, begin: Callable[[list[Statement]], BoundedConnection], *first: str) -> None:
        self._begin = begin
        self._waiting = [*map(Statement, ("BEGIN ISOLATION LEVEL READ COMMITTED", *first))]
        self._news: list[Statement] = []
        self.opened: BoundedConnection | None = None

    def execute(
        self, query: str, values: Sequence[Any] = (), refusal: Exception | None = None
    ) -> Statement:
        """Return a statement to send later."""
        statement = Statement(query, values, refusal, self.send)
        self._waiting.append(statement)
        return statement

    def tell(self, channel: str, news: str) -> None:
        """Notify listeners right after the commit."""
        self._news.append(Statement("SELECT pg_notify(%s, %s)", (channel, news)))

    def send(self) -> BoundedConnection:
        """Send the waiting statements, and return the connection."""
        if self.opened is None:
            self.opened = self._begin(self._waiting)
            self.opened.within = self
        elif self._waiting:
            self.opened.run(self._waiting)
        self._waiting = []
        return self.opened

    def commit(self) -> None:
        """Send the waiting statements, and commit."""
        # Sent before, because a COMMIT must not be sent again on another connection.
        connection = self.opened or self.send()
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.INTRANS:
            # Because the server would answer COMMIT with a silent rollback.
            raise psycopg.OperationalError("a statement of the transaction has failed")
        # News after the COMMIT, because a NOTIFY within serializes all commits of the server.
        self._waiting += [Statement("COMMIT"), *self._news]
        self.send()

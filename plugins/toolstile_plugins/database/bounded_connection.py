"""Connections to PostgreSQL that wait for a limited time, since a server may not answer."""

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
    """A connection whose every wait has an end.

    Attributes:
        patience: Seconds for a statement; the server itself gives one up before.
        within: The open transaction, for a caller that is given the connection alone.

    Raises:
        psycopg.OperationalError: When the server does not answer; the connection is closed.
    """

    patience = 15.0
    within: Transaction | None = None

    def run(self, statements: Sequence[Statement]) -> None:
        """Run statements in one round trip; after one that fails, the server skips the others."""
        failed: BaseException | None = None
        try:
            with self.pipeline() if len(statements) > 1 else nullcontext():
                try:
                    for each in statements:
                        query = each.query.replace("?", "%s").encode()
                        each.cursor = self.execute(query, each.values or None, binary=True)
                except psycopg.Error as error:
                    # Raised within the pipeline, it would be logged as well.
                    failed = error
        except psycopg.Error as error:
            failed = failed or error
        if isinstance(failed, psycopg.errors.PipelineAborted):
            # It stands for the statements that were skipped.
            failed = failed.__context__ or failed
        if isinstance(failed, psycopg.Error) and failed.sqlstate == REFUSED:
            skipped = (each for each in statements if not (each.cursor and each.cursor.pgresult))
            failed = next(skipped).refusal or failed
        if failed is not None:
            raise failed

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """Wait as the library does, for a limited time; interrupted, until the server is done."""
        try:
            options = {"interval": 0.1, **options}
            return waiting.wait(self._bounded(gen), self.pgconn.socket, *args, **options)
        except (KeyboardInterrupt, SystemExit):
            # Else the server could carry it out after it was looked for in vain.
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
                    # Else the end of a pipeline would wait as long again.
                    self.pgconn.finish()
                    with suppress(psycopg.Error):
                        gen.close()
                    told = f"it has not answered for {self.patience:g} seconds"
                    raise psycopg.OperationalError(told)
                wanted = gen.send(ready)
        except StopIteration as done:
            result: T = done.value
            return result


@dataclass(slots=True)
class Statement:
    """A statement, which is sent when its result is asked for, or before.

    Args:
        query: The statement, with %s for each value, or with ? as for SQLite.
        refusal: The exception to raise if the statement has the server refuse the transaction.
    """

    query: str
    values: Sequence[Any] = ()
    refusal: Exception | None = None
    send: Callable[[], object] = lambda: None
    cursor: Any = None

    def __post_init__(self) -> None:
        if any(isinstance(each, str) and _UNFIT.search(each) for each in self.values):
            # Refused only when it is sent, it would take the statements that wait with it.
            raise psycopg.DataError("text has neither NUL characters nor lone surrogates")

    @property
    def rowcount(self) -> int:
        """The number of rows that were found or changed."""
        return int(self._result().rowcount)

    def fetchall(self) -> list[Any]:
        """Return the rows, none for a statement that finds none."""
        return list(self._result().fetchall() if self._result().description else ())

    def _result(self) -> Any:
        if self.cursor is None:
            self.send()
        return self.cursor


class Transaction:
    """Statements that are sent together when a result is asked for, and at the end.

    Args:
        begin: Runs the first of them; on another connection, if one was lost while idle.
    """

    def __init__(self, begin: Callable[[list[Statement]], BoundedConnection], *first: str) -> None:
        self._begin = begin
        self._waiting = [*map(Statement, ("BEGIN ISOLATION LEVEL READ COMMITTED", *first))]
        self._news: list[Statement] = []
        self.opened: BoundedConnection | None = None

    def execute(
        self, query: str, values: Sequence[Any] = (), refusal: Exception | None = None
    ) -> Statement:
        """Return a statement that waits to be sent."""
        statement = Statement(query, values, refusal, self.send)
        self._waiting.append(statement)
        return statement

    def tell(self, channel: str, news: str) -> None:
        """Tell listeners, right after the commit."""
        self._news.append(Statement("SELECT pg_notify(%s, %s)", (channel, news)))

    def send(self) -> BoundedConnection:
        """Send the statements that wait; returns the connection, which sends others at once."""
        if self.opened is None:
            self.opened = self._begin(self._waiting)
            self.opened.within = self
        elif self._waiting:
            self.opened.run(self._waiting)
        self._waiting = []
        return self.opened

    def commit(self) -> None:
        """Commit, with the statements that wait."""
        # A COMMIT is not among the statements that are sent again on another connection.
        connection = self.opened or self.send()
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.INTRANS:
            # The server would answer COMMIT by undoing all, without a word.
            raise psycopg.OperationalError("a statement of the transaction has failed")
        # News of its own transaction would have all commits of the server wait for one another.
        self._waiting += [Statement("COMMIT"), *self._news]
        self.send()

"""Calls on workers through DBOS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.dispatcher import DispatchedCall
from toolstile_hookspecs.testing import DispatcherContract, StartMarksContract
from toolstile_hookspecs.testing.dispatcher import submitted
from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.workers.dbos.tables import PostgresStarts

from .with_database import WithDatabase

# Imported here, it is there already in the processes that the suite forks.
pytest.importorskip("dbos")
pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_a_call_that_cannot_be_submitted_raises_the_reason() -> None:
    call = DispatchedCall("k", "pay", None, "{}")
    with (
        closing(WithDatabase("postgresql://nobody@127.0.0.1:1/none")) as dispatcher,
        pytest.raises(StateError, match=r"^The database in Postgre"),
    ):
        submitted(dispatcher, call)


class TestDispatcher(DispatcherContract):
    @pytest.fixture
    def make(self, database: str) -> partial[WithDatabase]:
        return partial(WithDatabase, database)

    @pytest.fixture(params=[40, 2000])
    def number_of_calls(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)


class TestStartMarks(StartMarksContract):
    @pytest.fixture
    def marks(self, database: str) -> Iterator[PostgresStarts]:
        opened = PostgresDatabase(database)
        yield PostgresStarts(opened, "w1")
        opened.close()

    @pytest.fixture
    def others(self, database: str) -> Iterator[PostgresStarts]:
        opened = PostgresDatabase(database)
        yield PostgresStarts(opened, "w2")
        opened.close()

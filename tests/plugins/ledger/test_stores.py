"""The stores that come with the ledger keep to the contract of stores."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from toolyard_hookspecs.ledger import Claim, LedgerEntry, LedgerStore
from toolyard_hookspecs.testing import LedgerStoreContract
from toolyard_plugins.ledger.stores.memory import MemoryStore
from toolyard_plugins.ledger.stores.postgres import PostgresStore
from toolyard_plugins.ledger.stores.sqlite import SqliteStore

LetLapse = Callable[[LedgerStore, Claim], None]


class TestMemory(LedgerStoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestSqlite(LedgerStoreContract):
    @pytest.fixture
    def store(self, tmp_path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "new" / "ledger.db")
        yield store
        store.close()

    @pytest.fixture
    def again(self, store: SqliteStore) -> Iterator[SqliteStore]:
        again = SqliteStore(store.path)
        yield again
        again.close()

    @pytest.fixture
    def let_lapse(self) -> LetLapse:
        def in_a_process_that_ends(store: LedgerStore, claim: Claim) -> None:
            assert isinstance(store, SqliteStore)
            code = f"""
                import datetime
                from toolyard_hookspecs.ledger import Claim
                from toolyard_plugins.ledger.stores.sqlite import SqliteStore
                claim = Claim(*{tuple(claim[:6])!r}, {claim.created_at!r})
                assert SqliteStore({str(store.path)!r}).claim(claim, now=claim.created_at) is None
            """
            subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)

        return in_a_process_that_ends

    @pytest.mark.slow
    def test_a_new_file_can_be_opened_by_many_at_once(self, tmp_path) -> None:
        threads, files = 6, [tmp_path / f"{number}.db" for number in range(25)]
        gate = threading.Barrier(threads, timeout=60)

        def race(number: int) -> list[LedgerEntry | None]:
            found: list[LedgerEntry | None] = []
            for file in files:
                gate.wait()
                with closing(SqliteStore(file)) as store:
                    found.append(store.get(f"nothing of {number}"))
            return found

        with ThreadPoolExecutor(threads) as pool:
            assert [*pool.map(race, range(threads))] == [[None] * len(files)] * threads


@pytest.mark.slow
class TestPostgres(LedgerStoreContract):
    @pytest.fixture
    def store(self, database: str) -> Iterator[PostgresStore]:
        store = PostgresStore(database, lease=2.0)
        yield store
        store.close()

    @pytest.fixture
    def again(self, database: str) -> Iterator[PostgresStore]:
        again = PostgresStore(database)
        yield again
        again.close()

    @pytest.fixture
    def let_lapse(self) -> LetLapse:
        def unrenewed(store: LedgerStore, claim: Claim) -> None:
            store.claim(claim, now=claim.created_at)
            time.sleep(2.2)

        return unrenewed

"""The stores that come with the ledger keep to the contract of stores."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolstile_hookspecs.services.ledger import (
    Claim,
    EffectState,
    LedgerEntry,
    LedgerStore,
    RecordedResult,
)
from toolstile_hookspecs.testing import (
    JoinsDecisionContract,
    LedgerStoreContract,
    SettlesUnknownContract,
)
from toolstile_hookspecs.testing.ledger import NOW, claim_of
from toolstile_plugins.database.session_store import PostgresSessions
from toolstile_plugins.ledger.stores.memory import MemoryStore
from toolstile_plugins.ledger.stores.postgres import PostgresStore
from toolstile_plugins.ledger.stores.sqlite import VERSION, Row, SqliteStore
from toolstile_plugins.sessions.sqlite import SqliteSessions

LetLapse = Callable[[LedgerStore, Claim], None]


class TestMemory(LedgerStoreContract, SettlesUnknownContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestSqlite(LedgerStoreContract, SettlesUnknownContract):
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
                from toolstile_hookspecs.services.ledger import Claim
                from toolstile_plugins.ledger.stores.sqlite import SqliteStore
                claim = Claim(*{tuple(claim[:6])!r}, {claim.created_at!r})
                assert SqliteStore({str(store.path)!r}).claim(claim, now=claim.created_at) is None
            """
            subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)

        return in_a_process_that_ends

    @pytest.fixture
    def break_it(self) -> Callable[[LedgerStore], None]:
        def damage(store: LedgerStore) -> None:
            assert isinstance(store, SqliteStore)
            store.close()
            store.path.write_bytes(b"no database" * 1_000)

        return damage

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

    def test_unsettled_effects_are_found_by_an_index_in_older_files_too(self, tmp_path) -> None:
        path = tmp_path / "ledger.db"
        with closing(SqliteStore(path)) as store:
            store.claim(claim_of(), now=NOW)
            store._change("DROP INDEX toolstile_effects_open")
        with closing(SqliteStore(path)) as store:
            (step,) = store._read(f"EXPLAIN QUERY PLAN {store._select_open}")
        assert "USING INDEX toolstile_effects_open" in step[3]

    @pytest.mark.parametrize(("durability", "number"), [("process", 1), ("power", 2)])
    def test_its_file_is_nobody_else_s_has_a_log_and_says_its_version(
        self, tmp_path, durability, number
    ) -> None:
        path = tmp_path / "ledger.db"
        with closing(SqliteStore(path, durability=durability)) as store:
            store.claim(claim_of(), now=NOW)
            assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
            assert store._database.read("PRAGMA synchronous") == [(number,)]
        path.chmod(0o640)
        with closing(SqliteStore(path)) as store:
            store.get("opens the file")
        assert path.stat().st_mode & 0o777 == 0o640
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert other.execute("PRAGMA user_version").fetchone() == (VERSION,)

    @pytest.mark.slow
    def test_a_fork_refuses_what_its_parent_has_open_and_opens_a_store_of_its_own(
        self, tmp_path
    ) -> None:
        code = """
            import datetime, os, sys, threading, time
            from toolstile_hookspecs import LedgerError
            from toolstile_hookspecs.services.ledger import Claim, RecordedResult
            from toolstile_plugins.ledger.stores.sqlite import SqliteStore
            now = datetime.datetime.now(datetime.UTC)
            def claim(store, key):
                assert store.claim(Claim(key, "t", "h", key, "s", "c", now), now=now) is None
            def finish(store, key):
                assert store.finish(key, key, RecordedResult("Done."), None)
            closed = SqliteStore(sys.argv[1])
            claim(closed, "closed")
            closed.close()
            store = SqliteStore(sys.argv[1])
            store.get("opens the file")
            print("ready", flush=True)
            sys.stdin.readline()
            writer = threading.Thread(target=claim, args=(store, "meanwhile"))
            writer.start()
            while not (store._database._writer and store._database._writer._lock.locked()):
                time.sleep(0.001)
            print("forks", flush=True)
            (begun, begins), (ended, ends) = os.pipe(), os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    store.get("k")
                except LedgerError as error:
                    assert str(error).endswith("Make a Host in the child."), error
                else:
                    raise AssertionError
                store.close()
                own = SqliteStore(sys.argv[1])
                claim(own, "child")
                os.write(begins, b".")
                os.read(ended, 1)
                finish(own, "child")
                finish(closed, "closed")
                sys.exit()
            os.read(begun, 1)
            writer.join()
            finish(store, "meanwhile")
            store.close()
            os.write(ends, b".")
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            print(*sorted(f"{each.claim.key} {each.state}" for each in store.entries()), sep=",")
        """
        path = tmp_path / "ledger.db"
        command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), str(path)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                process.stdin.write("go on\n")
                process.stdin.flush()
                assert process.stdout.readline() == "forks\n"
                other.execute("COMMIT")
            assert process.stdout.read() == "child done,closed done,meanwhile done\n"
        assert process.returncode == 0


class Watched(SqliteStore):
    """One beside which something happens just before a statement, once."""

    lapsed = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.meanwhile: dict[str, Callable[[], object]] = {}

    def _read(self, query: str, *values: Any) -> list[Any]:
        self.meanwhile.pop("SELECT", bool)()
        return super()._read(query, *values)

    def _change(self, statement: str, *values: Any) -> int:
        self.meanwhile.pop(statement.partition(" ")[0], bool)()
        return super()._change(statement, *values)

    def _is_lapsed(self, row: Row) -> bool:
        return self.lapsed


class TestBetweenTwoStatements:
    """Other processes go on between the statements of one."""

    @pytest.fixture
    def store(self, tmp_path) -> Iterator[Watched]:
        with closing(Watched(tmp_path / "ledger.db")) as store:
            yield store

    @pytest.fixture
    def other(self, store: Watched) -> Iterator[SqliteStore]:
        with closing(SqliteStore(store.path)) as other:
            yield other

    def test_a_claim_of_which_only_the_answer_was_lost_is_made(self, store) -> None:
        claim = claim_of()
        assert [store.claim(claim, now=NOW) for _ in range(2)] == [None, None]

    def test_what_is_released_can_be_claimed(self, store, other) -> None:
        first, second = claim_of(), claim_of()
        other.claim(first, now=NOW)
        store.meanwhile["SELECT"] = lambda: other.release("k", first.effect_id)
        assert store.claim(second, now=NOW) is None
        assert other.get("k").claim == second

    def test_what_another_takes_over_is_not_taken_over_again(self, store, other) -> None:
        first, second = claim_of(), claim_of()

        def take_over() -> None:
            other.claim(second, now=NOW, over=first.effect_id)
            other.finish("k", second.effect_id, RecordedResult("Done."), None)

        other.claim(first, now=NOW)
        other.mark_unknown("k", first.effect_id, "It was cut off.")
        store.meanwhile["UPDATE"] = take_over
        standing = store.claim(claim_of(), now=NOW, over=first.effect_id)
        assert (standing.claim, standing.state) == (second, EffectState.DONE)

    @pytest.mark.parametrize("expires_at", [None, NOW])
    def test_what_is_recorded_late_is_not_taken_over(self, store, other, expires_at) -> None:
        first, late = claim_of(), RecordedResult("Done.")
        other.claim(first, now=NOW)
        other.mark_unknown("k", first.effect_id, "It was cut off.", expires_at)
        store.meanwhile["UPDATE"] = lambda: other.finish("k", first.effect_id, late, None)
        standing = store.claim(claim_of(), now=NOW, over=first.effect_id)
        assert (standing.claim, standing.result) == (first, late)

    def test_what_is_recorded_anew_is_not_taken_over_as_expired(self, store, other) -> None:
        first, anew = claim_of(), RecordedResult("Done.", changes="[]")
        other.claim(first, now=NOW)
        other.finish("k", first.effect_id, RecordedResult("Done."), NOW)
        store.meanwhile["UPDATE"] = lambda: other.finish("k", first.effect_id, anew, None)
        standing = store.claim(claim_of(), now=NOW)
        assert (standing.claim, standing.result) == (first, anew)

    def test_what_is_recorded_does_not_lapse(self, store, other) -> None:
        first, store.lapsed = claim_of(), True
        other.claim(first, now=NOW)
        store.meanwhile["UPDATE"] = lambda: other.finish(
            "k", first.effect_id, RecordedResult("Done."), None
        )
        assert store.claim(claim_of(), now=NOW).state is EffectState.DONE
        assert other.get("k").state is EffectState.DONE

    def test_what_is_renewed_does_not_lapse(self, store, other) -> None:
        first, store.lapsed = claim_of(), True

        def renew() -> None:
            other.renew({first.effect_id: "k"})
            store.lapsed = False

        other.claim(first, now=NOW)
        store.meanwhile["UPDATE"] = renew
        assert store.claim(claim_of(), now=NOW).state is EffectState.CLAIMED
        assert other.get("k").state is EffectState.CLAIMED


@pytest.mark.slow
class TestSqliteInDecisions(JoinsDecisionContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        with closing(SqliteStore(tmp_path / "ledger.db")) as store:
            yield store

    @pytest.fixture
    def sessions(self, store: SqliteStore) -> Iterator[SqliteSessions]:
        with closing(SqliteSessions(store.path)) as sessions:
            yield sessions


@pytest.mark.slow
class TestPostgres(LedgerStoreContract, SettlesUnknownContract):
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


@pytest.mark.slow
class TestPostgresInDecisions(JoinsDecisionContract):
    @pytest.fixture
    def store(self, database: str) -> Iterator[PostgresStore]:
        with closing(PostgresStore(database)) as store:
            yield store

    @pytest.fixture
    def sessions(self, store: PostgresStore) -> PostgresSessions:
        return PostgresSessions(store.held)

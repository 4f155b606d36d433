"""The ledger in databases and with users as others have set them up."""

from __future__ import annotations

import itertools
import os
import socket
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.relay import Relay

from toolstile_hookspecs import IdempotencyConfig, LedgerError, tool
from toolstile_hookspecs.services.ledger import Claim, EffectState, RecordedResult
from toolstile_plugins.database.bounded_connection import BoundedConnection
from toolstile_plugins.ledger import EffectLedger
from toolstile_plugins.ledger.stores.postgres import PostgresStore

from .conftest import Bench, HeldClock

pytestmark = pytest.mark.slow

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_databases = itertools.count(1)
_NAMES = (
    "tool_name",
    "params_hash",
    "effect_id",
    "session_id",
    "call_id",
    "created_at",
    "state",
    "owner",
    "lease",
)


def _claim(key: str, number: int = 0) -> Claim:
    return Claim(key, "pay", "0" * 64, f"{number:032d}", "s1", "c1", NOW)


def _do(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for each in statements:
            connection.execute(each.encode())


def _as(user: str, url: str) -> str:
    return url.replace("//toolstile@", f"//{user}@")


def _lapses(store: PostgresStore, key: str) -> None:
    store._change("UPDATE toolstile_effects SET lease = '2000-01-01' WHERE key = ?", key)


@pytest.mark.parametrize("off", [timedelta(hours=1), timedelta(hours=-1)])
def test_a_result_lasts_by_the_clock_of_the_database(database: str, off: timedelta) -> None:
    right, wrong = HeldClock(datetime.now(UTC)), HeldClock(datetime.now(UTC) + off)
    config = IdempotencyConfig(scope="global", ttl=timedelta(minutes=30))
    paid: list[str] = []

    @tool(name="pay", idempotency=config)
    def pay(bill: str) -> str:
        """Pay a bill."""
        paid.append(bill)
        return "Paid."

    with ExitStack() as stack:
        hosts = [Bench("sync", PostgresStore(database), stack) for _ in range(2)]
        for host, clock in zip(hosts, (right, wrong), strict=True):
            stack.callback(host.ledger.store.close)
            host.clock = clock
            host.ledger = EffectLedger(host.ledger.store, clock=clock)
            host.open(pay)
        here, there = hosts
        here.call("pay", bill="rent")
        assert there.call("pay", bill="rent").event.replayed
        there.call("pay", bill="gas")
        assert here.call("pay", bill="gas").event.replayed
        assert (here.ledger.prune_expired(), there.ledger.prune_expired()) == (0, 0)
        for clock in (right, wrong):
            clock.move(minutes=31)
        assert there.ledger.prune_expired() == 2
    assert paid == ["rent", "gas"]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "UTF8"])
def test_a_database_may_have_another_encoding(postgres: Any, encoding: str) -> None:
    name = f"encoded_{next(_databases)}"
    _do(
        postgres.url,
        f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' "
        "TEMPLATE template0",
    )
    with closing(PostgresStore(postgres.url.replace("/postgres", f"/{name}"))) as store:
        assert store.claim(_claim("name/é:pay"), now=NOW) is None
        store.finish("name/é:pay", "0" * 32, RecordedResult("Paid. 😀"), None)

        (entry,) = store.entries()

    assert entry.claim == _claim("name/é:pay")
    assert entry.result is not None
    assert entry.result.message == "Paid. 😀"


def test_a_key_that_the_encoding_of_a_database_lacks_is_told_of(postgres: Any) -> None:
    name = f"encoded_{next(_databases)}"
    _do(
        postgres.url,
        f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    )
    with (
        closing(PostgresStore(postgres.url.replace("/postgres", f"/{name}"))) as store,
        pytest.raises(LedgerError, match="LATIN1"),
    ):
        store.claim(_claim("name/😀:pay"), now=NOW)


def test_a_database_may_write_dates_in_another_way(database: str) -> None:
    name = database.rpartition("/")[2]
    _do(database, f"ALTER DATABASE {name} SET datestyle = 'German, DMY'")
    with closing(PostgresStore(database)) as store:
        store.claim(_claim("key"), now=NOW)
        _lapses(store, "key")

        standing = store.claim(_claim("key", 1), now=NOW)

    assert standing is not None
    assert standing.state is EffectState.UNKNOWN


def test_a_table_of_a_time_before_versions_gets_its_version_and_its_index(database: str) -> None:
    with closing(PostgresStore(database)) as store:
        store.claim(_claim("first"), now=NOW)
        _do(database, "DROP TABLE toolstile_schema", "DROP INDEX toolstile_effects_open")
    with closing(PostgresStore(database)) as store:
        assert [entry.claim.key for entry in store.unsettled()] == []
        assert store.get("first") is not None
        looked = store.held.read("SELECT to_regclass('toolstile_effects_open')::text")
    assert looked == [("toolstile_effects_open",)]


def test_unsettled_effects_are_found_among_many_that_are_done(database: str) -> None:
    with closing(PostgresStore(database)) as store:
        store.claim(_claim("first"), now=NOW)
        row = ", ".join(("'done'" if name == "state" else name) for name in _NAMES)
        _do(
            database,
            f"INSERT INTO toolstile_effects (key, {', '.join(_NAMES)}) "
            f"SELECT number::text, {row} FROM toolstile_effects, generate_series(1, 5000) number",
            "ANALYZE toolstile_effects",
        )
        plan = store.held.read(f"EXPLAIN {store._select_open}")
    assert "Index Scan using toolstile_effects_open" in plan[0][0]


class TestUsersThatMakeNoTables:
    @pytest.fixture
    def owned(self, database: str) -> str:
        with closing(PostgresStore(database)) as store:
            store.claim(_claim("first"), now=NOW)
        _do(database, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        return database

    @pytest.fixture(params=["SELECT, INSERT, UPDATE, DELETE", "SELECT"])
    def rights(self, request: pytest.FixtureRequest) -> str:
        return request.param

    @pytest.fixture
    def url(self, owned: str, rights: str) -> str:
        user = f"user_{next(_databases)}"
        _do(
            owned,
            f"CREATE ROLE {user} LOGIN",
            f"GRANT {rights} ON toolstile_effects TO {user}",
            f"GRANT SELECT ON toolstile_schema TO {user}",
        )
        return _as(user, owned)

    @pytest.mark.parametrize("rights", ["SELECT, INSERT, UPDATE, DELETE"], indirect=True)
    def test_they_use_the_one_there_is(self, url: str) -> None:
        with closing(PostgresStore(url)) as store:
            assert store.claim(_claim("second", 1), now=NOW) is None

    @pytest.mark.parametrize("rights", ["SELECT"], indirect=True)
    def test_who_may_only_read_looks_at_it(self, url: str) -> None:
        with closing(PostgresStore(url)) as store:
            assert [each.claim.key for each in store.entries()] == ["first"]

    @pytest.mark.parametrize("rights", ["SELECT"], indirect=True)
    def test_who_lacks_a_right_is_told_what_to_grant(self, url: str) -> None:
        with closing(PostgresStore(url)) as store, pytest.raises(LedgerError) as raised:
            store.claim(_claim("second", 1), now=NOW)

        assert "permission denied for table toolstile_effects. Grant its user" in str(raised.value)

    def test_who_may_not_make_the_table_that_is_not_there_is_told_so(self, database: str) -> None:
        user = f"user_{next(_databases)}"
        _do(database, f"CREATE ROLE {user} LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        with closing(PostgresStore(_as(user, database))) as store:
            with pytest.raises(LedgerError, match=r"CREATE on the schema\. Then retry"):
                store.claim(_claim("first"), now=NOW)
            _do(database, f"GRANT CREATE ON SCHEMA public TO {user}")
            assert store.claim(_claim("first"), now=NOW) is None

    def test_a_session_that_only_reads_looks_at_it(self, owned: str) -> None:
        url = f"{owned}?options=-cdefault_transaction_read_only%3Don"
        with closing(PostgresStore(url)) as store:
            assert [each.claim.key for each in store.entries()] == ["first"]


def test_a_fork_refuses_what_its_parent_has_open_and_connects_on_its_own(database: str) -> None:
    with closing(PostgresStore(database)) as store:
        assert store.claim(_claim("parent"), now=NOW) is None
        child = os.fork()
        if child == 0:
            try:
                with pytest.raises(LedgerError, match=r"Make a Host in the child\.$"):
                    store.get("parent")
                store.close()
                PostgresStore(database).claim(_claim("child", 1), now=NOW)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert {entry.claim.key for entry in store.entries()} == {"parent", "child"}


def test_a_peer_that_is_gone_without_a_word_is_not_waited_for(database: str) -> None:
    with (
        closing(PostgresStore(database)) as store,
        store.held.writing() as transaction,
        socket.socket(fileno=os.dup(transaction.send().fileno())) as copy,
    ):
        waits = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        asks = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)

    assert (waits, asks) == (10_000, 10)


@pytest.mark.long
def test_a_server_that_is_there_and_does_not_answer_is_given_up(
    postgres: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedConnection, "patience", 0.5)
    relay = Relay(postgres.port)
    url = database.replace(f":{postgres.port}/", f":{relay.port}/")
    with closing(relay), closing(PostgresStore(url)) as store:
        store.claim(_claim("key"), now=NOW)
        relay.fall_silent()

        with pytest.raises(LedgerError, match="cannot be used"):
            store.get("key")

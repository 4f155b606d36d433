"""A ledger that cannot be used stops the tools that need it, and no others."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from toolstile.policies.approval_tokens import SpentInFile
from toolstile_hookspecs import (
    ConfigurationError,
    IdempotencyConfig,
    LedgerError,
    Status,
    ToolContext,
    tool,
)
from toolstile_hookspecs.services.ledger import (
    Claim,
    LedgerEntry,
)
from toolstile_plugins.database.bounded_connection import BoundedConnection
from toolstile_plugins.ledger import LedgerSettings, MemoryStore
from toolstile_plugins.ledger.doctor import diagnosed
from toolstile_plugins.ledger.stores.postgres import PostgresStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

from .conftest import Bench

done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_is_done() -> None:
    done.clear()


@tool(idempotency=IdempotencyConfig())
def order(item: str) -> str:
    """Order something."""
    done.append(item)
    return f"ordered {item}"


@tool
def look() -> str:
    """Look at something."""
    return "seen"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def file_bench(driver: str, path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(driver, SqliteStore(path), stack)


def assert_closed(bench: Bench, *words: str) -> None:
    outcome = bench.call("order", item="tea")
    assert outcome.status is Status.ERROR
    for word in ("order was not run", "The ledger", *words):
        assert word in outcome.text
    assert outcome.event.attributes["ledger.state"] == "unavailable"
    assert bench.call("look").text == "seen"


def test_a_file_that_is_no_ledger(file_bench, path):
    path.write_bytes(b"This is not a database. " * 100)
    file_bench.open(order, look)
    assert_closed(file_bench, "not a database", "name another file")
    assert done == []


@pytest.mark.slow
def test_a_damaged_file(file_bench, path):
    file_bench.open(order, look)
    for number in range(200):
        file_bench.call("order", item=str(number))
    file_bench.ledger.store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    before = len(done)
    assert_closed(file_bench, "put a copy back")
    assert len(done) == before


def test_a_directory_in_its_place(file_bench, path):
    path.mkdir()
    file_bench.open(order, look)
    assert_closed(file_bench, "it is a directory. Configure the path of a file")


def test_a_file_where_its_directory_should_be(driver, tmp_path):
    (tmp_path / "file").write_text("x")
    with ExitStack() as stack:
        bench = Bench(driver, SqliteStore(tmp_path / "file" / "ledger.db"), stack)
        bench.open(order, look)
        assert_closed(bench, "Fix that, or name another file")


def test_one_of_a_later_version(file_bench, path):
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    file_bench.open(order, look)
    assert_closed(file_bench, "version 99", "another file")


@pytest.mark.parametrize("version", [0, 1])
def test_a_database_of_another_program_stays_as_it_is(file_bench, path, version):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (key TEXT)")
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    file_bench.open(order, look)
    assert_closed(file_bench, "is not a ledger, but a database of something else", "another file")
    assert done == []
    assert path.read_bytes() == before


def test_a_file_in_which_an_approval_was_used_before_takes_a_ledger(file_bench, path):
    assert SpentInFile(path).spend("token", 1.0, 0.0)
    file_bench.open(order, look)
    assert file_bench.call("order", item="tea").success


def test_a_table_that_only_has_the_name_of_the_ledgers(file_bench, path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE toolstile_effects (key TEXT)")
        connection.execute("PRAGMA user_version = 1")
    file_bench.open(order, look)
    assert_closed(file_bench, "another program's", "name another file")
    assert done == []


def test_it_works_again_when_it_can_be_read_again(file_bench, path):
    path.write_bytes(b"This is not a database. " * 100)
    file_bench.open(order, look)
    assert_closed(file_bench)
    path.unlink()
    assert file_bench.call("order", item="tea").success
    assert file_bench.call("order", item="tea").event.replayed


WHOLE = Claim(
    "global:order:whole", "order", "hash", "e1", "s", "c", datetime(2026, 1, 1, tzinfo=UTC)
)


DAMAGES = (
    "state = 'dnoe'",
    "state = X'00'",
    "message = NULL",
    "message = 9999999999999",
    "message = 'text'",
    "message = X'ff'",
    "changes = X'ff'",
    "created_at = 'yesterday'",
    "created_at = 9223372036854775807",
    "expires_at = X'00'",
    "session_id = CAST(X'ff' AS TEXT)",
    "state = 'unknown', reason = CAST(X'ff' AS TEXT)",
    "state = 'claimed', owner = 'nobody'",
    "state = 'claimed', owner = X'00'",
    "state = 'claimed', owner = 'a/b/c/d', lease = 'x'",
    "value = X'7b'",
)
"""Changes to a row by hand."""
OF_A_VALUE = DAMAGES[-1]
"""Bytes that are no JSON, which only the tool of the row can tell."""


def test_a_call_of_a_damaged_row_does_not_run_and_doctor_names_the_row(file_bench, path):
    file_bench.open(order)
    for damage in DAMAGES:
        outcome = file_bench.call("order", item=damage)
        key = outcome.event.attributes["ledger.key"]
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"UPDATE toolstile_effects SET {damage} WHERE key = ?", (key,))
        assert not file_bench.call("order", item=damage).success, damage
        found = [each.text for each in diagnosed(LedgerSettings(), path)]
        assert any(key in text or "UTF-8" in text for text in found) != (damage == OF_A_VALUE), (
            damage
        )
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("DELETE FROM toolstile_effects")
    assert done == [*DAMAGES]


def test_a_key_that_no_database_can_hold_is_an_error_of_the_ledger(path):
    store = SqliteStore(path)
    for use in (
        lambda: store.get("\ud800"),
        lambda: store.claim(WHOLE._replace(key="\ud800"), now=WHOLE.created_at),
        lambda: store.remove(tool_name="\ud800"),
    ):
        with pytest.raises(LedgerError):
            use()
    store.close()


class Failing:
    """A store that fails at one of its operations, as long as it is told to."""

    def __init__(self, store: Any, *names: str) -> None:
        self._store = store
        self.names = names
        self.error: Exception = LedgerError("The ledger is out of reach. Bring it back.")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def do(*args: Any, **kwargs: Any) -> Any:
            if name in self.names:
                raise self.error
            return found(*args, **kwargs)

        return do


@pytest.fixture
def failing(driver: str, store: Any) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(driver, Failing(store), stack)


def test_a_call_whose_record_cannot_be_written_is_no_success_and_keeps_nothing(failing):
    failing.ledger.store.names = ("finish",)
    failing.open(order)
    outcome = failing.call("order", item="tea")
    assert outcome.status is Status.ERROR
    for words in ("order ran", "could not be recorded", "Bring it back", "human intervention"):
        assert words in outcome.text
    assert failing.states() == ["unknown"]
    failing.ledger.store.names = ()
    assert "may have happened" in failing.call("order", item="tea").text
    assert done == ["tea"]


def test_a_nested_call_whose_record_cannot_be_written_is_unknown_and_says_why(failing):
    @tool
    def arrange(*, context: ToolContext) -> str:
        """Order what is needed."""
        return context.call("order", {"item": "tea"}).text

    failing.ledger.store.names = ("finish",)
    failing.open(order, arrange)
    assert "could not be recorded" in failing.call("arrange").text
    assert failing.states() == ["unknown"]
    (entry,) = failing.ledger.store.entries()
    assert "could not be recorded" in entry.reason


def test_what_could_not_be_settled_is_settled_later(failing):
    failing.ledger.store.names = ("finish", "mark_unknown")
    failing.open(order)
    failing.call("order", item="tea")
    assert failing.stored() == ["claimed"]
    failing.ledger.store.names = ()
    failing.ledger.keeper.stop()
    assert failing.states() == ["unknown"]


class Forgetful(MemoryStore):
    """A store behind a network, where the answer to the first claim is lost."""

    waits = True
    answers = False

    def claim(self, claim: Claim, **how: Any) -> LedgerEntry | None:
        standing = super().claim(claim, **how)
        if self.answers:
            return standing
        self.answers = True
        raise LedgerError("The connection is lost. Bring it back.")


def test_a_claim_of_which_only_the_answer_was_lost_is_given_back(driver):
    with ExitStack() as stack:
        bench = Bench(driver, Forgetful(), stack)
        bench.open(order)
        outcome = bench.call("order", item="tea")
        assert (outcome.status, done) == (Status.ERROR, [])
        assert bench.states() == []
        assert bench.call("order", item="tea").success


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(28, "No space left on device", "/secret"), "OSError: No space left on device"),
        (RuntimeError("its-password was refused"), "RuntimeError"),
    ],
)
@pytest.mark.parametrize(
    ("name", "words"),
    [("claim", ("order was not run",)), ("finish", ("order ran", "could not be recorded"))],
)
def test_a_store_that_raises_what_it_should_not_is_named_and_not_the_tool(
    failing, name, words, error, told
):
    failing.ledger.store.names = (name,)
    failing.ledger.store.error = error
    failing.open(order)
    outcome = failing.call("order", item="tea")
    assert outcome.status is Status.ERROR
    for each in (*words, f"store Failing has failed ({told})"):
        assert each in outcome.text


def test_what_a_store_did_not_take_is_settled_later_whatever_it_raised(failing):
    @tool(idempotency=IdempotencyConfig(), contained=True)
    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    failing.ledger.store.names = ("release",)
    failing.ledger.store.error = OSError("no space left")
    failing.open(fail)
    failing.call("fail")
    assert failing.stored() == ["claimed"]
    failing.ledger.store.names = ()
    failing.ledger.keeper.stop()
    assert failing.states() == []


def test_a_claim_that_somebody_settled_meanwhile_is_told_of(bench):
    @tool(idempotency=IdempotencyConfig())
    def slow() -> str:
        """Work while a person gives the key away."""
        (entry,) = bench.ledger.store.entries()
        bench.ledger.store.release(entry.claim.key, entry.claim.effect_id)
        return "done"

    bench.open(slow)
    outcome = bench.call("slow")
    assert not outcome.success
    assert "its claim was taken away" in outcome.text


def _fill(rest: Path) -> None:
    with suppress(OSError), rest.open("wb", buffering=0) as stream:
        while True:
            stream.write(b"x" * 512)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
class TestFullDisk:
    @pytest.fixture
    def disk(self, tmp_path: Path) -> Iterator[Path]:
        folder = tmp_path / "disk"
        folder.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False
        )
        if mounted.returncode:
            pytest.skip("Nothing can be mounted here.")
        yield folder
        subprocess.run(["umount", "-l", folder], check=True)

    def test_one_that_cannot_be_opened_again_is_told_of_with_the_likely_cause(self, disk):
        store = SqliteStore(disk / "ledger.db")
        list(store.entries())
        store.close()
        _fill(disk / "rest")
        with pytest.raises(LedgerError, match="may be full"):
            list(store.entries())

    def test_it_fails_closed_and_goes_on_when_there_is_room(self, driver, disk):
        with ExitStack() as stack:
            bench = Bench(driver, SqliteStore(disk / "ledger.db"), stack)
            bench.open(order, look)
            assert bench.call("order", item="tea").success
            rest = disk / "rest"
            _fill(rest)
            failed = None
            for number in range(200):
                outcome = bench.call("order", item=f"item {number}")
                if not outcome.success:
                    failed = outcome
                    break
            assert failed is not None
            assert "Make room on the disk" in failed.text
            assert bench.call("look").text == "seen"
            rest.unlink()
            assert bench.call("order", item="milk").success
            assert bench.call("order", item="tea").event.replayed
            # What had been done without a record is known to be unknown, or was not done.
            told = {each.claim.key: each.state for each in bench.ledger.store.entries()}
            assert len(done) <= len(told)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://u:hun%ter2@localhost/db", "is not a connection string"),
        ("hunter2", "is not a connection string"),
        ("postgresql://u:hunter2/x@localhost/db", "is not a connection string"),
        ("postgresql://u:x@hunter2@localhost/db", "is not a connection string"),
        ("postgresql://u:%ffhunter2@localhost/db", "is not a connection string"),
        ("host=127.0.0.1 password='hunter2", "is not a connection string"),
        ("postgresql://u:hunter2[@127.0.0.1:1/db", "on 127.0.0.1 cannot be used"),
        ("postgresql://127.0.0.1:1/hunter2?password=hunter2", "on 127.0.0.1 cannot be used"),
    ],
)
def test_no_password_of_a_database_is_told(url: str, words: str) -> None:
    with pytest.raises((ConfigurationError, LedgerError), match=words) as raised:
        PostgresStore(url).get("k")
    assert "hunter2" not in str(raised.value)
    assert "hun%ter2" not in str(raised.value)


@pytest.mark.slow
def test_a_connection_that_cannot_be_set_up_is_closed(database, monkeypatch):
    connect, made = BoundedConnection.connect, []

    def connected(*given, **options):
        made.append(connect(*given, **options))
        return made[-1]

    monkeypatch.setattr(BoundedConnection, "connect", connected)
    # The table cannot be made.
    store = PostgresStore(f"{database}?options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(LedgerError, match="may not make or change the tables for ledger"):
        store.get("k")
    assert [each.closed for each in made] == [True]

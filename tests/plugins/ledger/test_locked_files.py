"""A resource that locks the ledger's own file is refused, where the record once waited for it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolstile import ConfigurationError, Host, Settings
from toolstile_hookspecs import Binding, IdempotencyConfig, ToolCall, ToolContext, tool
from toolstile_hookspecs.services.ledger import LedgerStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore


class Shop:
    """A database of the application's own: one call at a time writes to it."""

    def __init__(self, file: Path) -> None:
        self.locked_file = file
        self.connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self.connection.execute("CREATE TABLE IF NOT EXISTS toolstile_shop (item TEXT)")

    def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self, savepoint: None) -> None:
        self.connection.execute("COMMIT")

    def rollback(self, savepoint: None) -> None:
        self.connection.execute("ROLLBACK")

    def close(self) -> None:
        self.connection.close()


class Opening:
    """Opens a shop when it is asked for, and says before that which file it locks."""

    def __init__(self, file: Path) -> None:
        self.locked_file = file

    def __call__(self, resources: object) -> Shop:
        raise AssertionError("it is not asked for")


@tool(category="write", idempotency=IdempotencyConfig())
def sell(item: str, *, context: ToolContext) -> str:
    """Sell something once."""
    shop = context.resources.get(Shop)
    shop.connection.execute("INSERT INTO toolstile_shop VALUES (?)", (item,))
    return item


REFUSED = r"Shop locks .*state\.db while a call has it, and {} records in that file"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def shop(file: Path) -> Iterator[Shop]:
    with closing(Shop(file)) as shop:
        yield shop


def host_of(file: Path, *resources: Binding[Any], stored: bool = False) -> Host:
    tables = {"ledger": {"path": file}} | ({"sessions": {"path": file}} if stored else {})
    settings = Settings.model_validate({"plugins": tables})
    return Host(settings=settings, discover=[*tables], tools=[sell], resources=resources)


@pytest.mark.parametrize(("stored", "whose"), [(False, "the ledger"), (True, "the session store")])
def test_a_host_with_one_does_not_open(file, shop, stored, whose):
    host = host_of(file, Binding.instance(Shop, shop), stored=stored)
    with pytest.raises(ConfigurationError, match=REFUSED.format(whose)):
        host.open()
    assert not host.is_open


def test_nor_does_one_that_would_build_it(file):
    host = host_of(file, Binding(Shop, Opening(file)))
    with pytest.raises(ConfigurationError, match=REFUSED.format("the ledger")):
        host.open()
    assert not file.exists()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_to_the_file_is_the_file(file, tmp_path):
    (tmp_path / "shop.db").symlink_to(file)
    with closing(Shop(tmp_path / "shop.db")) as shop:
        host = host_of(file, Binding.instance(Shop, shop))
        with pytest.raises(ConfigurationError, match=REFUSED.format("the ledger")):
            host.open()


def test_a_call_does_not_get_one_of_which_the_host_did_not_know(file):
    with (
        host_of(file) as host,
        host.executor(resources=[Binding(Shop, lambda _: Shop(file))]) as tools,
    ):
        outcome = tools.dispatch(ToolCall("sell", {"item": "tea"}))
    assert not outcome.success
    assert "so the call would wait for itself. Give one of the two another file." in outcome.text


@pytest.mark.parametrize("stored", [False, True])
def test_one_with_a_file_of_its_own_is_given(file, tmp_path, stored):
    with closing(Shop(tmp_path / "shop.db")) as shop:
        binding = Binding.instance(Shop, shop)
        with host_of(file, binding, stored=stored) as host, host.executor() as tools:
            assert tools.dispatch(ToolCall("sell", {"item": "tea"})).success
        assert shop.connection.execute("SELECT * FROM toolstile_shop").fetchall() == [("tea",)]


def test_one_of_which_the_ledger_is_made_is_given(file, shop):
    """It is its author's to have both use one connection."""
    ledger = Binding[LedgerStore](
        LedgerStore,  # type: ignore[type-abstract]
        lambda resources: SqliteStore(resources.get(Shop).locked_file),
    )
    with host_of(file, Binding(Shop, lambda _: shop), ledger) as host:
        assert host.is_open

"""Plugins for version 1.0 of the contract work by the names that were changed since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host
from toolstile_hookspecs import Binding, EffectUnknownError, IdempotencyConfig, ToolCall, tool
from toolstile_hookspecs.services.ledger import EffectState, LedgerStore, SettlesUnknown
from toolstile_hookspecs.testing import LedgerStoreContract, SettlesUnknownContract
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

from .their_ledger import TheirLedger

_KEPT = {name: each for name, each in vars(TheirLedger).items() if name != "mark_unknown"}
FormerLedger: Any = type(
    "FormerLedger",
    (),
    {
        **{name: each for name, each in _KEPT.items() if name not in {"__dict__", "__weakref__"}},
        "doubt": TheirLedger.mark_unknown,
    },
)
"""`TheirLedger` as it was written for version 1.0."""


class Inheriting(SqliteStore):
    """A store by its former names, which inherits the empty new ones from the protocols."""

    doubt = SqliteStore.mark_unknown
    put_off = SqliteStore.defer
    mark_unknown: Any = LedgerStore.mark_unknown
    defer: Any = SettlesUnknown.defer


class TestFormerLedger(LedgerStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        with closing(FormerLedger(str(tmp_path / "state.db"))) as store:
            yield store


class TestInheriting(LedgerStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        with closing(Inheriting(tmp_path / "ledger.db")) as store:
            yield store


class TestInheritingSettles(SettlesUnknownContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        with closing(Inheriting(tmp_path / "ledger.db")) as store:
            yield store


@tool(category="write", idempotency=IdempotencyConfig(scope="global"))
def pay(invoice: str) -> str:
    """Pay an invoice once."""
    raise EffectUnknownError(f"The bank did not answer about {invoice}.")


@pytest.mark.parametrize("kind", [FormerLedger, Inheriting])
def test_a_host_marks_an_effect_unknown_in_a_store_by_its_former_names(tmp_path, kind):
    with closing(kind(tmp_path / "ledger.db")) as store:
        bound = Binding.instance(LedgerStore, store)  # type: ignore[type-abstract]
        with (
            Host(discover=["ledger"], tools=[pay], resources=[bound]) as host,
            host.executor() as tools,
        ):
            assert not tools.dispatch(ToolCall("pay", {"invoice": "a"})).success
            (entry,) = store.entries()
    assert entry.state is EffectState.UNKNOWN
    assert "did not answer" in entry.reason


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("agents.history", "sendable"),
        ("execution.section_text", "section_text"),
        ("services.attachments", "SupportsAttachments"),
        ("services.watches", "SupportsHold"),
    ],
)
def test_a_module_that_was_documented_is_found_by_its_former_name(module, name):
    assert hasattr(import_module(f"toolstile_hookspecs.{module}"), name)

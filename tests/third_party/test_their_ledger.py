"""A stranger's ledger records within the decisions of the session store, by the contract alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from toolstile import ConfigurationError, Executor, Host, Settings
from toolstile_hookspecs import (
    Binding,
    CallRefused,
    IdempotencyConfig,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)
from toolstile_hookspecs.services.ledger import EffectState, LedgerStore
from toolstile_hookspecs.services.session_store import Decision
from toolstile_hookspecs.testing import JoinsDecisionContract, LedgerStoreContract
from toolstile_plugins.ledger import MemoryStore
from toolstile_plugins.sessions.sqlite import SqliteSessions

from .their_ledger import TheirLedger


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TheirLedger]:
    with closing(TheirLedger(str(tmp_path / "state.db"))) as store:
        yield store


class TestTheirLedger(LedgerStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[TheirLedger]:
        with closing(TheirLedger(str(tmp_path / "state.db"))) as store:
            yield store

    @pytest.fixture
    def again(self, store: TheirLedger) -> Iterator[TheirLedger]:
        with closing(TheirLedger(store.database)) as again:
            yield again


class TestTheirLedgerInDecisions(JoinsDecisionContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[TheirLedger]:
        with closing(TheirLedger(str(tmp_path / "state.db"))) as store:
            yield store

    @pytest.fixture
    def sessions(self, store: TheirLedger) -> Iterator[SqliteSessions]:
        with closing(SqliteSessions(store.database)) as sessions:
            yield sessions


RUNS: list[str] = []


@tool(category="write", idempotency=IdempotencyConfig(scope="global"))
def pay(invoice: str, *, context: ToolContext) -> str:
    """Pay an invoice once."""
    RUNS.append(invoice)
    context.session[str].append(invoice)
    return invoice


class Refusing:
    """A participant that refuses a decision, after all others have recorded."""

    waits = contributes = True

    def prepare(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...

    def contribute(self, decision: Decision) -> None:
        raise CallRefused("The till is closed. Open it, then retry.")


class Till:
    """A plugin whose till is closed at first."""

    is_closed = True

    @hookimpl(trylast=True)
    def toolstile_snapshot(self) -> Refusing | None:
        return Refusing() if self.is_closed else None


def opened(stack: ExitStack, store: Any, folder: Path, *plugins: object) -> Executor:
    settings = Settings.model_validate({"plugins": {"sessions": {"path": folder / "state.db"}}})
    host = Host(
        settings=settings,
        discover=["sessions", "ledger"],
        plugins=plugins,
        tools=[pay],
        resources=[Binding.instance(LedgerStore, store)],  # type: ignore[type-abstract]
    )
    return stack.enter_context(stack.enter_context(host).executor(session_id="s"))


def test_a_call_is_recorded_in_the_decision_of_its_session(store, tmp_path):
    RUNS.clear()
    with ExitStack() as stack:
        tools = opened(stack, store, tmp_path)
        assert tools.dispatch(ToolCall("pay", {"invoice": "a"})).success
        assert tools.dispatch(ToolCall("pay", {"invoice": "a"})).event.replayed
    assert RUNS == ["a"]
    (entry,) = store.entries()
    assert entry.state is EffectState.DONE


def test_what_a_later_participant_refuses_is_not_recorded(store, tmp_path):
    with ExitStack() as stack:
        till = Till()
        tools = opened(stack, store, tmp_path, till)
        refused = tools.dispatch(ToolCall("pay", {"invoice": "a"}))
        assert refused.text == "The till is closed. Open it, then retry."
        (entry,) = store.entries()
        assert entry.state is EffectState.UNKNOWN
        assert list(tools.session[str].all()) == []
        with closing(sqlite3.connect(tmp_path / "state.db")) as database:
            assert database.execute("SELECT count(*) FROM toolstile_sessions").fetchone() == (0,)


class NoJoining(MemoryStore):
    """A store that waits, and cannot record in a decision."""

    waits = True


@pytest.mark.parametrize("is_elsewhere", [True, False], ids=["elsewhere", "cannot join"])
def test_one_that_would_record_beside_it_keeps_the_host_from_opening(tmp_path, is_elsewhere):
    store = TheirLedger(str(tmp_path / "other.db")) if is_elsewhere else NoJoining()
    named = r"other\.db" if is_elsewhere else "NoJoining"
    told = rf"state\.db.*{named}.*JoinsDecision"
    with ExitStack() as stack, pytest.raises(ConfigurationError, match=told):
        opened(stack, store, tmp_path)

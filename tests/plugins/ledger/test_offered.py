"""The store that a plugin offers takes the place of the configured one."""

import argparse

import pytest

from toolstile import Host
from toolstile.testing import assert_ok
from toolstile_hookspecs import Binding, IdempotencyConfig, hookimpl, is_notice, tool
from toolstile_hookspecs.services.ledger import EffectState, LedgerStore
from toolstile_plugins.ledger import LedgerSettings, MemoryStore
from toolstile_plugins.ledger.api import HostLedger
from toolstile_plugins.ledger.commands import run_command

RUNS = []


@tool(idempotency=IdempotencyConfig(scope="global"))
def order(item: str) -> str:
    """Order something."""
    RUNS.append(item)
    return f"ordered {item}"


class OwnStore(MemoryStore):
    """A store of a stranger's."""


class Offering:
    def __init__(self, store):
        self.store = store

    @hookimpl
    def toolstile_resources(self):
        return [Binding.instance(LedgerStore, self.store)]


@pytest.fixture
def opened(toolstile_tools, tmp_path, monkeypatch):
    """A bench with the ledger and such a store, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    RUNS.clear()
    store = OwnStore()
    return store, toolstile_tools("ledger", Offering(store), order)


def test_effects_are_recorded_there_and_found_again(opened, tmp_path):
    store, tools = opened
    for _ in range(2):
        assert_ok(tools.call("order", item="mug"), value="ordered mug")
    with tools.host.executor() as other:
        call = tools.events[0].call
        assert other.dispatch(call).text == "ordered mug"
    assert RUNS == ["mug"]
    (entry,) = store.entries()
    assert entry.state is EffectState.DONE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("values", [{}, {"path": "other.db"}, {"lease": 5}])
def test_what_names_another_store_is_said_not_to_be_used(caplog, values):
    settings = LedgerSettings.model_validate(values)
    held, store = HostLedger(settings), OwnStore()
    with Host(discover=False, resources=[Binding.instance(LedgerStore, store)]) as host:
        for _ in range(2):
            with host.executor() as tools:
                assert held.ledger(tools.resources).store is store
    told = [each for each in caplog.records if each.name == "toolstile.ledger"]
    assert [is_notice(each) for each in told] == [True] * len(values)
    for name, record in zip(values, told, strict=True):
        assert f"OwnStore of {__name__}: {name} of [plugins.ledger] is not used." in (
            record.getMessage()
        )


def test_the_command_looks_there(opened, capsys):
    store, tools = opened
    wish = argparse.Namespace(what="list", tool=None, state=None, out=None)
    assert run_command(tools.host, wish) == 0
    assert "Nothing is recorded in OwnStore." in capsys.readouterr().out
    assert_ok(tools.call("order", item="mug"))
    assert run_command(tools.host, argparse.Namespace(what="prune", out=None)) == 0
    wish = argparse.Namespace(what="invalidate", key=None, tool="order", all=False, out=None)
    assert run_command(tools.host, wish) == 0
    assert list(store.entries()) == []

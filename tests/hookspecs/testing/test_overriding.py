"""A subclass of a suite hears of a fixture that is missing, or wrong."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest

from toolstile_hookspecs import DefinitionError
from toolstile_hookspecs.services.ledger import LedgerStore
from toolstile_hookspecs.testing import (
    FilesystemContract,
    LedgerStoreContract,
    ObserverContract,
    PolicyContract,
    ToolSuiteContract,
)
from toolstile_hookspecs.testing.suite import Contract
from toolstile_plugins.ledger.stores.memory import MemoryStore


@pytest.mark.parametrize(
    ("contract", "fixture"),
    [
        (FilesystemContract, "files"),
        (LedgerStoreContract, "store"),
        (ObserverContract, "plugin"),
        (PolicyContract, "policy"),
        (ToolSuiteContract, "plugin"),
    ],
)
def test_what_has_to_be_overridden_is_told(contract: Any, fixture: str) -> None:
    with pytest.raises(
        pytest.UsageError, match=f"Override the fixture `{fixture}` in {contract.__name__}"
    ):
        getattr(contract, fixture).__wrapped__(contract())


def looked_at(contract: Any, fixture: str, given: object) -> None:
    """Let a suite look at what a fixture of a subclass gives."""
    request = SimpleNamespace(
        fixturename="_fixtures_fit",
        fixturenames=["_fixtures_fit", fixture],
        getfixturevalue=lambda _: given,
    )
    subclass = type("TestMine", (contract,), {})
    subclass._fixtures_fit.__wrapped__(subclass(), request)


class HalfAStore:
    """A store of which most is still to be written."""

    waits = False
    lease = None

    def get(self, key):
        return None


@pytest.mark.parametrize(
    ("contract", "fixture", "given", "told"),
    [
        (PolicyContract, "policy", None, "gives None. A `return` may be missing"),
        (ToolSuiteContract, "options", None, "gives None. A `return` may be missing"),
        (LedgerStoreContract, "store", HalfAStore, "gives the class HalfAStore. Let it return an"),
        (LedgerStoreContract, "store", HalfAStore(), "a HalfAStore, which has no claim, no close"),
        (FilesystemContract, "files", "/tmp", "gives a str, which has no chmod, .* See Filesystem"),
        (ToolSuiteContract, "outside", {}, r"gives {}. Let it return a function of \(bench\)"),
        (ObserverContract, "break_it", None, "gives None. Let it return a function"),
        (
            ToolSuiteContract,
            "prepare",
            lambda bench: None,
            r"cannot be called: .* Let it return a function of \(bench, tool\)",
        ),
    ],
)
def test_a_fixture_that_is_half_written_is_told(
    contract: Any, fixture: str, given: object, told: str
) -> None:
    whole = f"The fixture `{fixture}` of TestMine .*{told}"
    with pytest.raises(pytest.fail.Exception, match=whole):
        looked_at(contract, fixture, given)


def taking_more(function: Any) -> Any:
    """Have a function of the bench be called with a tool, too."""

    @functools.wraps(function)
    def taking(bench: Any, tool: Any) -> Any:
        return function(bench)

    return taking


def test_fixtures_that_are_as_they_should_be_pass() -> None:
    looked_at(ObserverContract, "heard", lambda bench: 0)
    looked_at(ToolSuiteContract, "prepare", lambda bench, tool: None)
    looked_at(ToolSuiteContract, "prepare", taking_more(lambda bench: None))
    looked_at(ToolSuiteContract, "plugin", "planning")
    looked_at(ToolSuiteContract, "of_the_authors_own", None)


@pytest.mark.parametrize(
    ("contract", "name", "value", "told"),
    [
        (PolicyContract, "policy", object(), "is not a fixture. Write @pytest.fixture above def p"),
        (ToolSuiteContract, "plugin", lambda self: None, "is not a fixture. Write @pytest.fixture"),
        (PolicyContract, "allowed", ["read_thing"], r"holds 'read_thing', and is to be written as"),
        (PolicyContract, "denied", ("read_thing", {}), r"holds 'read_thing', and is to be written"),
        (ToolSuiteContract, "arguments", {"add": [1, 2]}, "is to be written as"),
        (ToolSuiteContract, "arguments", [("add", {"a": 1})], "is to be written as"),
        (ToolSuiteContract, "varying", "now", r"""is to be written as {"now"}"""),
    ],
)
def test_what_is_written_wrong_is_told_where_it_is_written(
    contract: Any, name: str, value: object, told: str
) -> None:
    with pytest.raises(DefinitionError, match=f"TestMine: `{name}` {told}"):
        type("TestMine", (contract,), {name: value})


class TestWhatASubclassUsesByItself(Contract, store=LedgerStore):
    """It is there before what the subclass gives is made, as without the check."""

    @pytest.fixture(autouse=True)
    def place(self) -> None:
        self.where = "here"

    @pytest.fixture
    def store(self) -> LedgerStore:
        assert self.where == "here"
        return MemoryStore()

    def test_it_comes_first(self, store: LedgerStore) -> None:
        assert store.get("k") is None

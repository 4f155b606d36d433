"""Unknown effects settle themselves while a host is open; what does not is an alarm."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile.testing import FakeClock
from toolstile_hookspecs import (
    IdempotencyConfig,
    MarkdownSection,
    PolicyDecision,
    Reconciled,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    hookimpl,
    tool,
)
from toolstile_hookspecs.calls import RECONCILE_TOOL
from toolstile_hookspecs.services.ledger import Claim, EffectState
from toolstile_plugins.ledger.doctor import diagnosed
from toolstile_plugins.ledger.entries import due_of
from toolstile_plugins.ledger.reconcile import reconcile_pass
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

PARAMS = b'{"item":"tea"}'


class Shop:
    """A plugin with tools, and what its events and its policy are."""

    def __init__(self) -> None:
        self.says: Callable[[], Reconciled] = lambda: Reconciled.happened(7)
        self.answer: Any = {"happened": True, "value": 7, "message": "Found."}
        self.asked: list[Any] = []
        self.events: list[ToolInvoked] = []
        self.settled = threading.Event()
        self.denies = False

        @tool(idempotency=IdempotencyConfig(scope="global", reconcile=self.find))
        def order(item: str) -> int:
            """Order something."""
            raise AssertionError

        @tool(idempotency=IdempotencyConfig(scope="global"))
        def pay(item: str) -> int:
            """Pay for something."""
            raise AssertionError

        @tool(category="read")
        def find_payment(reference: str, item: str) -> dict[str, Any]:
            """Find a payment."""
            self.asked.append((reference, item))
            return self.answer

        self.tools: list[Tool[Any, Any]] = [order, pay, find_payment]

    def find(self, params: Any, key: str, context: ToolContext) -> Reconciled:
        self.asked.append((params.item, key))
        return self.says()

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="shop", title="Shop", tools=self.tools)]

    @hookimpl
    def toolstile_check(self, tool: Tool[Any, Any]) -> PolicyDecision | None:
        return (
            PolicyDecision.deny("Nobody asks.")
            if self.denies and tool.name == RECONCILE_TOOL
            else None
        )

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        self.events.append(event)
        if event.attributes.get("ledger.reconciled") in ("happened", "did_not"):
            self.settled.set()


class Case:
    """A ledger in a file with unknown effects, and hosts over it."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.shop = Shop()
        self.clock = FakeClock()
        self.path = path
        self.store = SqliteStore(path)
        self._stack = stack
        stack.callback(self.store.close)

    def unknown(self, tool_name: str, params: bytes | None = PARAMS) -> str:
        effect_id = os.urandom(16).hex()
        key = f"global:{tool_name}:1"
        claim = Claim(key, tool_name, "0" * 64, effect_id, "s", "c", self.clock.now(), params)
        assert self.store.claim(claim, now=self.clock.now()) is None
        self.store.mark_unknown(key, effect_id, "The line was cut.")
        return key

    def open(self, **ledger: Any) -> tuple[Host, LedgerSettings]:
        table = {"path": self.path, "reconcile_every": 0, **ledger}
        host = self._stack.enter_context(
            Host(
                discover=["ledger"],
                plugins=[self.shop],
                clock=self.clock,
                settings=Settings(plugins={"ledger": table}),
            )
        )
        return host, host.settings("ledger")

    def state(self, key: str) -> EffectState:
        entry = self.store.get(key)
        assert entry is not None
        return entry.state


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with ExitStack() as stack:
        yield Case(tmp_path / "ledger.db", stack)


OTHER = {"pay": {"tool": "find_payment", "arguments": {"reference": "key", "item": "params.item"}}}


def test_a_host_settles_in_the_background_what_an_earlier_one_has_left(case):
    key = case.unknown("order")
    case.open(reconcile_every=0.01)
    assert case.shop.settled.wait(10)
    assert case.state(key) is EffectState.DONE
    (event,) = case.shop.events
    assert (event.tool_name, event.attributes["ledger.key"]) == (RECONCILE_TOOL, key)


def test_another_tool_says_what_became_of_a_call(case):
    key = case.unknown("pay")
    host, settings = case.open(reconcile=OTHER)
    (look,) = reconcile_pass(host, settings)
    assert (look.found, case.shop.asked) == ("happened", [(key, "tea")])
    entry = case.store.get(key)
    assert entry is not None
    assert entry.result is not None
    assert (entry.result.message, entry.result.value) == ("Found.", b"7")
    assert [event.tool_name for event in case.shop.events] == ["find_payment", RECONCILE_TOOL]


def test_an_effect_that_another_host_asks_about_is_not_asked_about_twice(case):
    key = case.unknown("order")
    host, settings = case.open()
    (entry,) = case.store.unsettled()
    assert case.store.hold(key, entry.claim.effect_id, "1" * 32)
    (look,) = reconcile_pass(host, settings, at_once=True)
    assert (look.found, case.shop.asked) == ("asked elsewhere", [])


@pytest.mark.parametrize(
    ("answer", "found", "state"),
    [
        ({"happened": False}, "did_not", "unknown"),
        ({"happened": None, "reason": "It is closed."}, "cannot_tell", "unknown"),
        ({"happened": "yes"}, "cannot_tell", "unknown"),
        ({"happened": True, "value": "seven"}, "cannot_tell", "unknown"),
        ([], "cannot_tell", "unknown"),
        ({"happened": True, "value": 9}, "happened", "done"),
    ],
    ids=["did not", "cannot tell", "shape", "misfit", "list", "happened"],
)
def test_its_answer_has_one_documented_shape(case, answer, found, state):
    key = case.unknown("pay")
    case.shop.answer = answer
    host, settings = case.open(reconcile=OTHER)
    (look,) = reconcile_pass(host, settings)
    assert (look.found, str(case.state(key))) == (found, state)
    assert len(list(case.store.unsettled())) == (found == "cannot_tell")


def test_where_no_params_were_kept_nothing_can_be_told(case):
    case.unknown("pay", None)
    host, settings = case.open(reconcile=OTHER)
    (look,) = reconcile_pass(host, settings)
    assert (look.found, case.shop.asked) == ("cannot_tell", [])


def test_a_policy_that_denies_it_leaves_the_effect_as_it_was(case):
    key = case.unknown("order")
    case.shop.denies = True
    host, settings = case.open()
    (look,) = reconcile_pass(host, settings)
    assert (look.found, case.shop.asked, case.state(key)) == (None, [], EffectState.UNKNOWN)
    case.shop.denies = False
    assert [look.found for look in reconcile_pass(host, settings)] == [None]
    assert [look.found for look in reconcile_pass(host, settings, at_once=True)] == ["happened"]


def test_one_of_two_that_find_something_else_is_believed(case):
    key = case.unknown("order")

    def while_a_person_settles() -> Reconciled:
        (entry,) = case.store.unsettled()
        assert case.store.settle(key, entry.claim.effect_id, "A person knows.", None)
        return Reconciled.happened(7)

    case.shop.says = while_a_person_settles
    host, settings = case.open()
    (look,) = reconcile_pass(host, settings)
    assert (look.found, case.state(key)) == ("cannot_tell", EffectState.UNKNOWN)
    assert list(case.store.unsettled()) == []


# --- alarms ---


def test_what_is_not_settled_in_time_is_an_alarm(case, caplog):
    key = case.unknown("pay")
    host, settings = case.open(owner="the on-call")
    alarms: set[str] = set()
    assert list(reconcile_pass(host, settings, alarms=alarms)) == []
    case.clock.advance(timedelta(hours=1))
    (look,) = reconcile_pass(host, settings, alarms=alarms)
    assert look.due.is_over
    (event,) = case.shop.events
    assert not event.success
    assert event.attributes["ledger.due"] == "overdue since 2026-01-01 13:00, by the on-call"
    assert f"toolstile ledger resolve '{key}'" in caplog.text
    assert list(reconcile_pass(host, settings, alarms=alarms)) == []


@pytest.mark.parametrize("hours", [-24 * 365, 0, 24 * 365])
def test_a_clock_that_jumps_moves_the_alarm_and_nothing_else(case, hours):
    case.clock.advance(timedelta(days=400))
    key = case.unknown("order")
    case.clock = FakeClock(case.clock.now() + timedelta(hours=hours))
    case.shop.says = lambda: Reconciled.cannot_tell("Not yet.")
    host, settings = case.open()
    (look,) = reconcile_pass(host, settings)
    assert (look.found, look.due.is_over) == ("cannot_tell", hours > 0)
    assert [look.found for look in reconcile_pass(host, settings)] == [None]
    case.shop.says = lambda: Reconciled.happened(7)
    assert [look.found for look in reconcile_pass(host, settings, at_once=True)] == ["happened"]
    assert case.state(key) is EffectState.DONE
    with host.executor() as tools:
        stands = tools.dispatch(ToolCall("order", {"item": "coffee"}))
    assert not stands.event.replayed


def test_doctor_counts_what_is_overdue(case):
    case.unknown("pay")
    settings = LedgerSettings(path=case.path, owner="the on-call")
    (_, found) = diagnosed(settings, case.path)
    assert found.text.startswith("Unknown effects that a person must resolve: 1; the first is ")
    assert "by the on-call" in found.text
    late = LedgerSettings(path=case.path, settle_within=365 * 24 * 3600)
    assert len(list(diagnosed(late, case.path))) == 1


def test_the_deadline_of_what_is_settled_is_none(case):
    key = case.unknown("pay")
    (entry,) = case.store.unsettled()
    settings, now = LedgerSettings(), case.clock.now()
    assert due_of(entry, settings, now) is not None
    case.store.settle(key, entry.claim.effect_id, "It has not.", None)
    (entry,) = case.store.entries()
    assert due_of(entry, settings, now) is None
    assert json.loads(entry.claim.params or b"") == {"item": "tea"}

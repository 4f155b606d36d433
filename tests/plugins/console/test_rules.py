"""The console shows the rules over each tool, and tests them on recorded calls."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from toolstile_hookspecs import PolicyDecision, ToolContext, ToolSelector
from toolstile_plugins.console import rules

from .conftest import EVIL, Desk, Visitor, until
from .test_access import Markup
from .test_stopping import token


class Strict:
    """Denies tea, and waits at coffee."""

    name = EVIL
    selector = ToolSelector(tools=frozenset({"order"}))

    def __init__(self) -> None:
        self.waits, self.ends = threading.Event(), threading.Event()

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        if params.item == "coffee":
            self.waits.set()
            assert self.ends.wait(60)
        return PolicyDecision.deny(EVIL) if params.item == "tea" else PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        """Remember nothing."""


@pytest.fixture
def strict() -> Strict:
    return Strict()


@pytest.fixture
def desk(tmp_path, stack, strict) -> Desk:
    with ExitStack() as before:
        earlier = Desk(tmp_path, before)
        for item in ("milk", "tea", "coffee"):
            earlier.call("order", item=item)
    return Desk(tmp_path, stack, policies=[strict])


def press(visitor: Visitor) -> tuple[int, str]:
    once = token(visitor.get("/rules").text, form="/rules/backtest")
    answer = visitor.post("/rules/backtest", {"once": once})
    return answer.status_code, answer.text


def test_each_tool_is_shown_with_its_rules_and_the_ones_without_any_first(visitor):
    found = {row["tool"]: row["rules"] for row in visitor.json("/rules")["tools"]}
    assert (found["order"], found["pay"], found["twice"]) == ([EVIL], ["requires_confirmation"], [])
    page = visitor.get("/rules").text
    assert page.index("<td>twice</td>") < page.index("<td>order</td>")
    assert Markup(page).found == []


def test_a_backtest_runs_beside_the_calls_of_the_host(desk, visitor, strict, monkeypatch):
    page = visitor.get("/rules").text
    assert (visitor.json("/rules")["backtest"], "The last backtest" in page) == (None, False)
    once = {"once": token(page, form="/rules/backtest")}
    second = {"once": token(visitor.get("/rules").text, form="/rules/backtest")}
    assert visitor.post("/rules/backtest", {**once, "csrf": ""}).status_code == 403
    assert visitor.post("/rules/backtest", once).status_code == 303
    assert strict.waits.wait(60)

    # Meanwhile another press is refused, and calls run and are recorded as ever.
    assert visitor.post("/rules/backtest", once).status_code == 409
    refused = visitor.post("/rules/backtest", second)
    assert (refused.status_code, "is running, with 2 calls so far" in refused.text) == (409, True)
    assert "A backtest is running: 2 calls" in visitor.get("/rules").text
    assert desk.call("order", item="beer").event.success
    assert desk.call("order", item="milk").event.success
    strict.ends.set()

    found = until(lambda: visitor.json("/rules")["backtest"])
    assert found["calls"] == 3
    (change,) = found["changes"]
    assert (change["tool"], change["was"], change["now"], change["calls"]) == (
        ("order", "allow", "deny", 1)
    )
    page = visitor.get("/rules").text
    assert ("3 calls, 1 decided otherwise" in page, Markup(page).found) == (True, [])
    recorded = [call["tool"] for call in visitor.json("/calls")["calls"]]
    assert (recorded, len(desk.effects())) == (["order"] * 5, 4)

    # The newest calls alone are tried: of beer, and of milk again.
    monkeypatch.setattr(rules, "NEWEST", 2)
    assert press(visitor)[0] == 303
    assert until(lambda: visitor.json("/rules")["backtest"]["calls"] == 2)
    assert visitor.json("/rules")["backtest"]["changes"] == []


def test_faults_are_shown(desk, visitor, tmp_path):
    desk.host.stop("Enough")
    assert press(visitor)[0] == 303
    assert "Stopped: all calls" in until(lambda: visitor.json("/rules")["fault"])
    desk.host.go()
    saved = tmp_path / "calls.jsonl.backtest.json"
    assert not saved.exists()
    os.mkfifo(saved)
    assert "cannot be read as the result" in visitor.json("/rules")["fault"]
    saved.unlink()
    saved.write_text(EVIL)
    page = visitor.get("/rules").text
    assert ("cannot be read as the result of a backtest" in page, Markup(page).found) == (True, [])
    record = tmp_path / "calls.jsonl"
    record.write_text("no record\n")
    saved.unlink()
    assert press(visitor)[0] == 303
    assert "is not a record" in until(lambda: visitor.json("/rules")["fault"])


def test_without_a_record_there_is_nothing_to_test(tmp_path, stack):
    desk = Desk(tmp_path, stack, record={"strict": "no"})
    visitor = Visitor(desk, stack.enter_context(desk.client()))
    assert "No calls are recorded here" in visitor.get("/rules").text
    once = desk.console._access.once(f"{visitor.room}/rules/backtest")
    assert visitor.post("/rules/backtest", {"once": once}).status_code == 404

"""A backtest says how policies would decide about recorded calls, by policy and tool."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Settings, ToolCall, tool
from toolstile_hookspecs import ApprovalAnswer, StateError, ToolContext, hookimpl
from toolstile_plugins.record import RecordError
from toolstile_plugins.rules.commands import Report, backtest

RAN: list[str] = []


@tool(category="read")
def look(name: str) -> str:
    """Look something up."""
    RAN.append(name)
    return f"{name} is there"


@tool(category="write")
def pay(amount: int, *, context: ToolContext) -> str:
    """Pay an amount."""
    RAN.append(str(amount))
    return f"paid {amount}"


@tool(category="read")
def price() -> str:
    """Say the price."""
    return "It costs 120."


class Shop:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="shop", title="Shop", tools=[look, pay, price])]


Calls = list[tuple[str, dict[str, Any]]]
Record = Callable[..., Path]


def host_with(*policies: dict[str, Any], record: Path | None = None, **options: Any) -> Host:
    plugins = {} if record is None else {"record": {"file": str(record)}}
    settings = Settings(plugins=plugins, policies=list(policies))
    return Host(
        settings=settings, plugins=[Shop()], discover=["record", "policies", "rules"], **options
    )


@pytest.fixture
def record(tmp_path: Path) -> Record:
    def write(*calls: tuple[str, dict[str, Any]], policies: Any = (), name: str = "r") -> Path:
        path = tmp_path / f"{name}.jsonl"
        approver = lambda _: ApprovalAnswer.approve()  # noqa: E731
        with host_with(*policies, record=path, approver=approver) as host, host.executor() as tools:
            for called, arguments in calls:
                tools.dispatch(ToolCall(called, arguments))
        RAN.clear()
        return path

    return write


def tried(*policies: dict[str, Any], paths: list[Path]) -> Report:
    with host_with(*policies) as host:
        return backtest(host, paths)


def rows(report: Report) -> list[tuple[str, str, str, str, int]]:
    return [(each.tool, each.policy, each.was, each.now, each.calls) for each in report.changes]


LOOK, PAY = ("look", {"name": "tea"}), ("pay", {"amount": 5})
NO_WRITES = {"kind": "category", "name": "no writes", "category": {"write": "deny"}}
ASK_WRITES = {"kind": "category", "name": "ask", "category": {"write": "ask"}}
LOOK_FIRST = {
    "kind": "sequential_dependency",
    "name": "look first",
    "dependencies": {"pay": ["look"]},
}


def test_the_same_policies_decide_alike_and_no_handler_runs(record: Record):
    report = tried(LOOK_FIRST, paths=[record(PAY, LOOK, PAY, policies=[LOOK_FIRST])])
    assert (report.calls, report.changes, RAN) == (3, [], [])


def test_stopped_calls_are_not_taken_for_allowed_ones(record: Record):
    path = record(PAY, PAY, policies=[NO_WRITES])
    with host_with() as host:
        host.stop("Enough")
        with pytest.raises(StateError, match=r"Stopped: all calls.*Enough.*`toolstile go`"):
            backtest(host, [path])
        host.go()
        assert backtest(host, [path]).calls == 2


def test_a_new_policy_is_told_with_its_calls_and_the_first_of_them(record: Record):
    path = record(LOOK, PAY, PAY, LOOK)
    report = tried(NO_WRITES, paths=[path])
    assert rows(report) == [("pay", "no writes", "allow", "deny", 2)]
    [change] = report.changes
    assert change.first == f"{path}:3"
    assert "pay" in change.reason
    assert report.model_dump()["changes"][0]["calls"] == 2


def test_a_policy_that_is_gone_is_told_as_it_decided_then(record: Record):
    report = tried(paths=[record(PAY, LOOK, PAY, policies=[LOOK_FIRST])])
    assert rows(report) == [("pay", "look first", "deny", "allow", 1)]


def test_a_question_that_was_not_asked_then_is_approved_so_that_later_calls_go_on(record: Record):
    pay_first = {**LOOK_FIRST, "name": "pay first", "dependencies": {"look": ["pay"]}}
    path = record(PAY, LOOK, policies=[pay_first])
    assert rows(tried(ASK_WRITES, pay_first, paths=[path])) == [("pay", "ask", "allow", "ask", 1)]


def test_a_question_becomes_a_denial(record: Record):
    path = record(PAY, policies=[ASK_WRITES])
    assert rows(tried(NO_WRITES, paths=[path])) == [("pay", "no writes", "ask", "deny", 1)]


def test_records_are_counted_together_and_the_most_frequent_change_comes_first(record: Record):
    paths = [record(LOOK, PAY, name="one"), record(LOOK, LOOK, name="two")]
    no_reads = {"kind": "category", "name": "no", "category": {"read": "deny", "write": "deny"}}
    report = tried(no_reads, paths=paths)
    assert report.calls == 4
    assert [row[0] for row in rows(report)] == ["look", "pay"]


def test_a_tool_that_is_gone_is_not_judged(record: Record):
    path = record(LOOK)
    with Host(discover=["record", "policies"]) as host:
        report = backtest(host, [path])
    assert rows(report) == [("look", "(none)", "allow", "not judged", 1)]


def test_what_is_no_record_is_told(tmp_path: Path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"name": "look"}\n')
    with pytest.raises(RecordError, match="is not a record"):
        tried(paths=[path])


def limit(most: int) -> dict[str, Any]:
    rule = {"kind": "rule", "name": "limit", "tools": ["pay"], "when": f"args.amount > {most}"}
    return {**rule, "effect": "deny", "reason": f"At most {most}."}


def test_a_regression_is_found_by_rule_and_tool(record: Record):
    fine = {"kind": "rule", "name": "tea", "tools": ["look"], "when": "args.name == 'tee'"}
    policies = (limit(500), {**fine, "effect": "deny"})
    path = record(
        *(("pay", {"amount": each}) for each in (5, 500, 501, 500)), LOOK, policies=policies
    )
    assert rows(tried(*policies, paths=[path])) == []
    report = tried(limit(499), policies[1], paths=[path])
    assert rows(report) == [("pay", "limit", "allow", "deny", 2)]
    [change] = report.changes
    assert (change.first, change.reason) == (f"{path}:3", "At most 499.")


def test_calls_that_values_of_earlier_ones_allowed_are_found_where_these_are_not_trusted(
    record: Record,
):
    values = {"kind": "provenance", "name": "values", "arguments": {"pay": {"amount": "value"}}}
    trusting = {**values, "trusted": {"price": ["*"]}, "otherwise": "deny"}
    path = record(("price", {}), ("pay", {"amount": 120}), policies=[trusting])
    assert rows(tried(trusting, paths=[path])) == []
    report = tried({**trusting, "trusted": {}}, paths=[path])
    assert rows(report) == [("pay", "values", "allow", "deny", 1)]


@pytest.mark.long
def test_a_hundred_thousand_calls_take_less_than_a_minute(record: Record):
    calls = [("pay", {"amount": each % 501}) if each % 2 else LOOK for each in range(100_000)]
    path = record(*calls, policies=[limit(500)])
    began = time.process_time()
    report = tried(limit(499), LOOK_FIRST, paths=[path])
    seconds = time.process_time() - began
    assert report.calls == 100_000
    assert rows(report) == [("pay", "limit", "allow", "deny", 99)]
    assert seconds < 60

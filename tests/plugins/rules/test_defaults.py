"""A configuration can deny what no rule allows, and rule tools by name."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import ApprovalAnswer, ConfigurationError, Status, ToolCall, tool

CLOSED = '[policy]\ndefault = "deny"\n'
SMALL = {"tools": ["pay"], "when": "args.amount <= 10", "effect": "allow"}
READING = {"kind": "category", "category": {"read": "allow"}}


def test_what_no_rule_allows_is_denied(office):
    office.open(SMALL, READING, text=CLOSED)
    assert office("pay", amount=10, to="ann").success
    assert office("read_note", path="a").success
    denied = office("pay", amount=11, to="ann")
    assert denied.status is Status.DENIED
    assert denied.text == "pay cannot be called so: no rule allows it. Continue without it."
    assert [each.policy for each in denied.event.decisions] == ["policy.default"]


def test_without_it_what_no_rule_denies_is_allowed(office):
    office.open(SMALL)
    assert office("pay", amount=11, to="ann").success


def test_a_policy_that_only_has_no_objection_allows_nothing(office):
    limit = {"kind": "rate_limit", "max_calls_per_minute": 5}
    office.open(
        limit, {"tools": ["pay"], "when": "args.amount > 10", "effect": "deny"}, text=CLOSED
    )
    assert office("pay", amount=1, to="ann").status is Status.DENIED


def test_deny_wins_over_what_is_allowed_and_a_person_may_allow(office):
    office.open(
        SMALL,
        {"tools": ["pay"], "when": "args.to == 'eve'", "effect": "deny", "reason": "Not eve."},
        {"tools": ["pay"], "when": "args.amount > 10 && args.amount <= 99", "effect": "ask"},
        text=CLOSED,
        approver=lambda request: ApprovalAnswer.approve(),
    )
    assert office("pay", amount=1, to="eve").text.startswith("Not eve.")
    assert office("pay", amount=50, to="ann").success
    assert not office("pay", amount=100, to="ann").success


def test_each_call_of_a_batch_needs_a_rule(office):
    office.open(SMALL, READING, text=CLOSED)
    ended = office.at_once(
        ("pay", {"amount": 1, "to": "ann"}),
        ("fetch", {"url": "https://example.com/"}),
        ("write_note", {"path": "a", "text": "b"}),
    )
    assert [each.success for each in ended] == [True, True, False]


def test_nested_calls_need_a_rule_of_their_own(office):
    office.open({"tools": ["tidy"], "effect": "allow"}, text=CLOSED)
    if office.driver == "sync":
        assert "no rule allows it" in office("tidy", path="a").text


def test_tools_that_come_later_need_a_rule(office):
    @tool(category="write")
    def later() -> str:
        """Come later."""
        return "done"

    office.open(READING, text=CLOSED)
    with office.host.executor(tools=[later]) as tools:
        assert tools.dispatch(ToolCall("later", {})).status is Status.DENIED
        assert tools.dispatch(ToolCall("read_note", {"path": "a"})).success


@pytest.mark.parametrize("default", ['"dney"', "true", '""'])
def test_a_wrong_default_is_refused(office, default):
    with pytest.raises(ConfigurationError, match=r"policy\.default"):
        office.open(text=f"[policy]\ndefault = {default}\n")


def test_tools_have_rules_by_name(office):
    table = {"tools": {"pay": "deny", "*_note": "deny", "read_note": "allow", "fetch": "ask"}}
    office.open({"kind": "category", **table})
    assert office("pay", amount=1, to="ann").text == (
        "pay cannot be called here: tools of name pay are not allowed. Continue without it."
    )
    assert not office("write_note", path="a", text="b").success
    assert office("read_note", path="a").success
    assert not office("fetch", url="https://example.com/").success
    assert office("order", lines=[]).success


def test_names_do_not_narrow_the_rules_of_categories(office):
    table = {"category": {"read": "deny"}, "tools": {"pay": "deny", "read_note": "allow"}}
    office.open({"kind": "category", **table})
    assert not office("read_note", path="a").success
    assert not office("pay", amount=1, to="ann").success
    assert office("write_note", path="a", text="b").success


def test_a_name_with_a_rule_that_no_tool_has_is_an_error(office):
    with pytest.raises(ConfigurationError, match=r"'pya' .did you mean 'pay'"):
        office.open({"kind": "category", "tools": {"pya": "deny"}})

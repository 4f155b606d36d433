"""A rule counts the calls of its session, and knows how long ago the last one was."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from toolstile import Host
from toolstile_hookspecs import (
    ApprovalAnswer,
    ConfigurationError,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_plugins.rules import RulePolicy

from .conftest import pay

PAGE = {"url": "https://example.com/"}
FEW: dict[str, Any] = {"tools": ["pay"], "when": "session.count('pay') >= 2", "effect": "deny"}
PAID = ("pay", {"amount": 1, "to": "ann"})
NOTE = {"path": "a"}


def passes(outcomes: list[Any]) -> list[bool]:
    return [outcome.success for outcome in outcomes]


def pays(office: Any, times: int) -> list[bool]:
    return passes([office("pay", amount=1, to="ann") for _ in range(times)])


def test_so_many_successes_are_allowed(office):
    office.open({**FEW, "reason": "Two are enough."})
    assert pays(office, 3) == [True, True, False]
    assert office("pay", amount=1, to="ann").text == "Two are enough."


@pytest.mark.parametrize(
    "rule",
    [
        FEW,
        {**FEW, "effect": "ask"},
        {"tools": ["pay"], "when": "session.count('pay') < 2", "effect": "allow"},
    ],
)
def test_exactly_so_many_of_a_batch_are_allowed(office, rule):
    text = '[policy]\ndefault = "deny"\n' if rule["effect"] == "allow" else ""
    office.open(rule, text=text, approver=lambda _: ApprovalAnswer.deny("No."))
    assert passes(office.at_once(*[PAID] * 5)) == [True, True, False, False, False]
    assert pays(office, 1) == [False]


def test_each_question_of_a_batch_can_be_approved(office):
    asked = []
    office.open({**FEW, "effect": "ask"}, approver=lambda each: asked.append(each) or True)
    assert passes(office.at_once(*[PAID] * 4)) == [True] * 4
    assert len(asked) == 2


def test_a_call_that_fails_does_not_count(office):
    office.open({"tools": ["read_note"], "when": "session.count('tidy') >= 1", "effect": "deny"})
    with office.host.executor() as tools:
        # An async driver has no sync handlers that call others.
        assert not tools.dispatch(ToolCall("tidy", {"path": 3})).success
        assert tools.dispatch(ToolCall("read_note", NOTE)).success
        assert tools.dispatch(ToolCall("tidy", NOTE)).success
        assert not tools.dispatch(ToolCall("read_note", NOTE)).success


def test_what_is_rolled_back_with_its_caller_does_not_count():
    @tool
    def inner() -> str:
        """Do something."""
        return "done"

    @tool
    def outer(fails: bool, *, context: ToolContext) -> ToolResult[str]:
        """Have something done."""
        assert context.call("inner").success
        return ToolResult.error("Failed.") if fails else ToolResult.ok("done")

    rule = RulePolicy(tools={"inner"}, when="session.count('inner') >= 1", effect="deny")
    with (
        Host(discover=False, policies=[rule], tools=[inner, outer]) as host,
        host.executor() as tools,
    ):
        assert tools.dispatch(ToolCall("outer", {"fails": True})).text == "Failed."
        assert tools.dispatch(ToolCall("outer", {"fails": False})).success
        assert tools.dispatch(ToolCall("inner")).status is Status.DENIED


@dataclass(frozen=True)
class Total:
    """The number of calls."""

    calls: int


def test_a_call_that_is_run_again_does_not_count_itself():
    @tool(contained=True)
    def bump(*, context: ToolContext) -> str:
        """Count a call."""
        before = context.session[Total].latest()
        context.session[Total].seed(Total(1 if before is None else before.calls + 1))
        return "done"

    rule = RulePolicy(tools={"bump"}, when="session.count('bump') >= 3", effect="deny")
    with Host(discover=False, policies=[rule], tools=[bump]) as host, host.executor() as tools:
        assert passes(tools.dispatch_all([ToolCall("bump")] * 3)) == [True] * 3
        assert tools.session[Total].latest() == Total(3)


def test_a_write_of_a_batch_is_judged_without_what_runs_beside_it(office):
    rule = {"tools": ["pay"], "when": "session.count('fetch') > 0", "effect": "allow"}
    free = {"tools": ["fetch"], "effect": "allow"}
    office.open(rule, free, text='[policy]\ndefault = "deny"\n')
    assert passes(office.at_once(("fetch", PAGE), PAID)) == [True, False]
    assert pays(office, 1) == [True]


def test_exactly_so_many_are_allowed_from_many_threads(office):
    office.open({**FEW, "when": "session.count('pay') >= 7"})
    start, outcomes = threading.Barrier(16), []

    def pay_once() -> None:
        start.wait()
        outcomes.append(office("pay", amount=1, to="ann"))

    threads = [threading.Thread(target=pay_once) for _ in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    # One that has just ended may count twice for a moment, and never not at all.
    assert sum(passes(outcomes)) <= 7
    while pays(office, 1)[0]:
        outcomes.append(None)
    assert len([each for each in outcomes if each is None or each.success]) == 7


def test_the_last_call_was_so_long_ago(office, clock):
    rule = {"tools": ["pay"], "when": "session.seconds_since('fetch') > 600", "effect": "deny"}
    office.open(rule, clock=clock)
    assert pays(office, 1) == [False]
    assert office("fetch", **PAGE).success
    assert pays(office, 1) == [True]
    clock.time += timedelta(seconds=601)
    assert pays(office, 1) == [False]
    # A clock that is set back makes no time negative.
    clock.time -= timedelta(days=1)
    assert pays(office, 1) == [True]


def test_a_glob_counts_all_that_it_means(office):
    office.open({"tools": ["fetch"], "when": "session.count('*_note') == 2", "effect": "deny"})
    assert office("read_note", **NOTE).success
    assert office("fetch", **PAGE).success
    assert office("write_note", **NOTE, text="a").success
    assert not office("fetch", **PAGE).success


def test_each_session_counts_by_itself(office):
    office.open(FEW)
    assert pays(office, 3) == [True, True, False]
    with office.host.executor() as tools:
        assert tools.dispatch(ToolCall(*PAID)).success


def test_a_rule_without_the_session_takes_no_place_and_hears_of_nothing(office):
    office.open({"tools": ["pay"], "when": "args.amount > 500", "effect": "deny"}, FEW)
    [plain, counting] = office.host.policies
    assert plain.reserve is None
    assert not plain.hears(pay)
    assert counting.reserve is not None
    assert counting.hears(pay)


def test_a_wrong_count_is_refused_when_the_host_opens(office, subtests):
    for when, told in [
        ("session.count('pya') > 1", "'pya' (did you mean 'pay'?)"),
        ("session.count(args.to) > 1", "reads the session other than by session.count"),
        ("args.to.count('pay') > 1", "calls count() of args.to (string), not session"),
        ("session.seconds_since() > 1", "seconds_since"),
        ("session.count('pay') > 'a'", "(number) with "),
        ("session.count('pay') == '2'", "never equal"),
        ("session.counts('pay') > 1", "counts"),
        ("session.pay > 1", "reads the session other"),
        ("session == session", "reads the session other"),
        ("size(session) > 1", "reads the session other"),
        ("session.exists(name, name == 'pay')", "reads the session other"),
    ]:
        with subtests.test(when=when, told=told):
            with pytest.raises(ConfigurationError) as refused:
                office.open({**FEW, "when": when})
            assert "toolstile.toml" in str(refused.value)
            assert told in str(refused.value)

"""Calls are counted by tool and status, as a scraper reads them over HTTP."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import pytest

from toolstile import Host, Settings
from toolstile.testing import assert_failed, assert_ok
from toolstile_hookspecs import (
    Answer,
    IdempotencyConfig,
    PolicyDecision,
    Principal,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)
from toolstile_plugins.inbox import Inbox
from toolstile_plugins.metrics.prometheus import CallMetrics

from .conftest import Scraper


@tool(category="read")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(category="write")
def fail(times: int = 0, *, context: ToolContext) -> ToolResult[None]:
    """Call oneself as often as said, then fail."""
    if times:
        context.call("fail", {"times": times - 1})
    return ToolResult.error("no")


@tool(category="side_effect", idempotency=IdempotencyConfig(), timeout=0.2)
def send(text: str, *, context: ToolContext) -> str:
    """Send."""
    if text == "lost":
        time.sleep(1)
    return text


@tool(category="side_effect", requires_confirmation=True)
def pay(euros: int) -> str:
    """Pay."""
    return f"Paid {euros} euros."


@dataclass(frozen=True)
class Text:
    text: str


@tool(category="write", contained=True)
def swap(text: str, *, context: ToolContext) -> str:
    """Put a text in the place of another, once both calls have read it."""
    before = context.session[Text].latest()
    if before is None:
        both_read.wait(timeout=30)
    context.session[Text].seed(Text(text))
    return text


both_read = Barrier(2)


class Denying:
    """Denies what is said."""

    @hookimpl
    def toolstile_check(self, params):
        text = getattr(params, "text", None)
        return PolicyDecision.deny("Not that.") if text == "bad" else None


def test_calls_are_counted_by_tool_and_status(open_tools):
    tools, scraper = open_tools(add, fail)
    for b in (1, 2):
        assert_ok(tools.call("add", a=1, b=b))
    assert_failed(tools.call("add", a="1", b=2))
    assert_failed(tools.call("fail"))
    assert scraper.of("toolstile_calls_total", "tool", "status") == {
        ("add", "succeeded"): 2,
        ("add", "invalid"): 1,
        ("fail", "failed"): 1,
    }


def test_calls_of_children_are_counted_by_agent(open_tools):
    tools, scraper = open_tools(add)
    tools.call("add", a=1, b=1)
    child = tools.executor.child("reader")
    for each in (child, child, child.child("deeper")):
        each.dispatch(ToolCall("add", {"a": 1, "b": 2}))
    assert scraper.of("toolstile_agent_calls_total", "tool", "agent") == {
        ("add", "main/reader"): 2,
        ("add", "main/reader/deeper"): 1,
    }


def test_durations_are_counted_in_buckets(open_tools):
    tools, scraper = open_tools(add)
    assert_ok(tools.call("add", a=1, b=2))
    buckets = scraper.of("toolstile_call_duration_seconds_bucket", "tool", "le")
    assert buckets["add", "60.0"] == buckets["add", "+Inf"] == 1
    assert scraper.of("toolstile_call_duration_seconds_count", "tool") == {("add",): 1}
    assert 0 < scraper.of("toolstile_call_duration_seconds_sum", "tool")["add",] < 60


def test_names_that_a_model_makes_up_share_one_label(open_tools):
    tools, scraper = open_tools(add)
    for number in range(50):
        assert_failed(tools.dispatch(ToolCall(f"invented_{number}")), status="unknown_tool")
    assert scraper.of("toolstile_calls_total", "tool", "status") == {
        ("(unknown)", "unknown_tool"): 50
    }
    assert "invented" not in scraper.text()


def test_no_argument_gets_into_a_label(open_tools):
    tools, scraper = open_tools(send, Denying())
    for text in ("needle", "bad"):
        tools.call("send", text=text, needle="needle")
        tools.call("send", text=text)
    assert "needle" not in scraper.text()


def test_tools_beyond_the_limit_share_one_label(toolstile_tools):
    metrics = CallMetrics(max_tools=2)
    tools = toolstile_tools(metrics, add, fail, send)
    for name in ("add", "fail", "send", "add", "send"):
        tools.dispatch(ToolCall(name, {"text": "a"} if name == "send" else {}))
    counted = [each for each in metrics.registry.collect() if each.name == "toolstile_calls"]
    labels = {sample.labels["tool"] for each in counted for sample in each.samples}
    assert labels == {"add", "fail", "(others)"}


def test_denials_are_counted_by_who_has_denied(open_tools):
    class Asking:
        @hookimpl
        def toolstile_check(self, params):
            text = getattr(params, "text", None)
            return PolicyDecision.ask("Sure?") if text == "doubtful" else None

    tools, scraper = open_tools(add, send, Denying(), Asking(), approver=lambda request: False)
    assert_failed(tools.call("send", text="bad"), status="denied")
    assert_failed(tools.call("send", text="doubtful"), status="denied")
    assert_ok(tools.call("send", text="good"))
    denials = scraper.of("toolstile_denials_total", "tool", "policy")
    assert denials.pop(("send", "(approver)")) == 1
    ((tool, policy),) = denials
    assert (tool, denials[tool, policy]) == ("send", 1)
    assert "Denying" in policy


def test_a_dry_run_denies_too(open_tools):
    tools, scraper = open_tools(send, dry_run=True)
    assert_failed(tools.call("send", text="a"), status="denied")
    assert scraper.of("toolstile_denials_total", "tool", "policy") == {("send", "dry run"): 1}


def test_rollbacks_are_counted(open_tools):
    tools, scraper = open_tools(add, fail)
    assert_failed(tools.call("fail", times=2))
    assert_ok(tools.call("add", a=1, b=2))
    assert scraper.of("toolstile_rollbacks_total", "tool") == {("fail",): 3}


def test_further_runs_after_a_conflict_are_counted(open_tools):
    tools, scraper = open_tools(swap)
    tools.call_all(("swap", {"text": "a"}), ("swap", {"text": "b"}))
    assert scraper.of("toolstile_reruns_total", "tool") == {("swap",): 1}


def test_calls_that_the_ledger_knows_are_counted_by_their_state(open_tools):
    tools, scraper = open_tools("ledger", send)
    for text in ("a", "a", "b", "a"):
        assert_ok(tools.call("send", text=text))
    tools.call("send", text="lost")
    assert scraper.of("toolstile_ledger_calls_total", "tool", "state") == {
        ("send", "hit"): 2,
        ("send", "recorded"): 2,
        ("send", "unknown"): 1,
    }
    assert scraper.of("toolstile_calls_total", "tool", "status") == {
        ("send", "succeeded"): 4,
        ("send", "timed_out"): 1,
    }


def test_questions_that_wait_are_told_until_they_are_answered(free_port, tmp_path):
    port = free_port()
    inbox = {"path": str(tmp_path / "inbox.db"), "wait": "pending"}
    settings = Settings(approver="inbox", plugins={"inbox": inbox, "metrics": {"port": port}})
    scraper = Scraper(f"http://127.0.0.1:{port}/metrics")
    with Host(settings=settings, tools=[pay]) as host, host.executor() as tools:
        for euros in (1, 2):
            assert tools.dispatch(ToolCall("pay", {"euros": euros})).status is Status.PENDING
        assert scraper.of("toolstile_approvals_waiting", "tool") == {("pay",): 2}
        kept = tools.resources.get(Inbox)
        for question in kept.waiting():
            kept.answer(question.ticket, Answer.DENIED, Principal("os", "ada"), via="test")
        assert scraper.of("toolstile_approvals_waiting", "tool") == {}


@pytest.mark.parametrize("toolstile_driver", ["sync", "async"])
def test_parallel_calls_are_all_counted(open_tools, toolstile_driver):
    tools, scraper = open_tools(add)
    calls = [("add", {"a": 1, "b": b}) for b in range(20)]

    def in_a_session_of_its_own(b):
        with tools.host.executor() as executor:
            return executor.dispatch(ToolCall("add", {"a": 1, "b": b})).success

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(in_a_session_of_its_own, range(20)))
    assert all(each.success for each in tools.call_all(*calls))
    assert scraper.of("toolstile_calls_total", "tool", "status") == {("add", "succeeded"): 40}


@tool(category="write", contained=True)
def keep(text: str) -> str:
    """Keep a text."""
    return text


def test_transactions_are_counted_by_their_end_and_calls_that_are_put_back_as_rollbacks():
    metrics = CallMetrics()
    with Host(discover=False, plugins=[metrics], tools=[keep]) as host, host.executor() as tools:
        with tools.transaction("kept") as work:
            work.dispatch(ToolCall("keep", {"text": "a"}))
        with tools.transaction("dropped") as work:
            for _ in range(2):
                work.dispatch(ToolCall("keep", {"text": "b"}))
            with work.transaction("inner") as inner:
                inner.dispatch(ToolCall("keep", {"text": "c"}))
            work.rollback()
    count = metrics.registry.get_sample_value
    assert count("toolstile_transactions_total", {"status": "committed"}) == 1
    assert count("toolstile_transactions_total", {"status": "rolled_back"}) == 2
    assert count("toolstile_rollbacks_total", {"tool": "keep"}) == 3
    assert metrics._undecided == {}

"""The metrics count calls, by tool and outcome."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from toolstile.testing import assert_failed, assert_ok
from toolstile_hookspecs import (
    IdempotencyConfig,
    PolicyDecision,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)


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


@tool(category="side_effect", idempotency=IdempotencyConfig())
def send(text: str) -> str:
    """Send."""
    return text


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


def test_durations_are_counted_in_buckets(open_tools):
    tools, scraper = open_tools(add, metrics={"buckets": [0.5, 1000.0]})
    assert_ok(tools.call("add", a=1, b=2))
    buckets = scraper.of("toolstile_call_duration_seconds_bucket", "tool", "le")
    assert set(buckets) == {("add", "0.5"), ("add", "1000.0"), ("add", "+Inf")}
    assert buckets["add", "1000.0"] == buckets["add", "+Inf"] == 1
    assert scraper.of("toolstile_call_duration_seconds_count", "tool") == {("add",): 1}
    assert 0 < scraper.of("toolstile_call_duration_seconds_sum", "tool")["add",] < 1000


def test_names_that_a_model_makes_up_share_one_label(open_tools):
    tools, scraper = open_tools(add)
    for number in range(50):
        assert_failed(tools.dispatch(ToolCall(f"made_up_{number}")), status="unknown_tool")
    assert scraper.of("toolstile_calls_total", "tool", "status") == {
        ("(unknown)", "unknown_tool"): 50
    }
    assert "made_up" not in scraper.text()


def test_no_argument_gets_into_a_label(open_tools):
    tools, scraper = open_tools(send, Denying())
    for text in ("needle", "bad"):
        tools.call("send", text=text, needle="needle")
        tools.call("send", text=text)
    assert "needle" not in scraper.text()


def test_tools_beyond_the_limit_share_one_label(open_tools):
    tools, scraper = open_tools(add, fail, send, metrics={"max_tools": 2})
    for name in ("add", "fail", "send", "add", "send"):
        tools.dispatch(ToolCall(name, {"text": "a"} if name == "send" else {}))
    labels = {tool for tool, _ in scraper.of("toolstile_calls_total", "tool", "status")}
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
    assert scraper.of("toolstile_rollbacks_total", "tool", "status") == {("fail", "failed"): 3}


def test_answers_from_the_ledger_are_counted(open_tools):
    tools, scraper = open_tools("ledger", send)
    for text in ("a", "a", "b", "a"):
        assert_ok(tools.call("send", text=text))
    assert scraper.of("toolstile_ledger_hits_total", "tool") == {("send",): 2}
    assert scraper.of("toolstile_calls_total", "tool", "status") == {("send", "succeeded"): 4}


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

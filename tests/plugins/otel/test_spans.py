"""A span says of a call what the GenAI conventions ask for, and what became of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from toolstile import Session
from toolstile_hookspecs import (
    Cancellation,
    Interrupt,
    PolicyDecision,
    ToolCall,
    ToolContext,
    ToolResult,
    TransactionFailed,
    hookimpl,
    tool,
)


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool(category="read", wire_name="Weather.Now")
def weather() -> str:
    """Tell the weather."""
    return "rain"


@tool
def fail(how: str) -> ToolResult[None]:
    """Fail."""
    if how == "returned":
        return ToolResult.error("No paper. Fill the tray, then retry.")
    raise {"raised": KeyError("paper"), "interrupt": Interrupt("wait")}[how]


@tool(timeout=0.05)
async def sleep() -> None:
    """Take too long."""
    import asyncio

    await asyncio.sleep(30)


@tool(requires_confirmation=True)
def risky() -> str:
    """Need a person."""
    return "done"


class Never:
    name = "never"

    def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        return PolicyDecision.deny("Not before lunch. Have lunch, then retry.")

    def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None: ...


def test_a_success_is_as_the_conventions_say(traced: Any) -> None:
    traced.open(add)
    traced.call("add", a=1, b=2)

    span = traced.span
    assert span.name == "execute_tool add"
    assert span.kind is SpanKind.INTERNAL
    assert span.status.status_code is StatusCode.UNSET
    assert span.parent is None
    assert (span.events, span.links) == ((), ())
    assert span.instrumentation_scope.name == "toolstile_plugins.otel"
    assert traced.attributes() == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Add two integers.",
        "gen_ai.tool.call.id": "call_1",
        "toolstile.call.id": "call_1",
        "toolstile.outcome": "succeeded",
        "toolstile.session.id": "session-1",
        "gen_ai.conversation.id": "session-1",
    }


def test_what_sampling_goes_by_is_there_when_it_opens(traced: Any) -> None:
    seen: list[Any] = []

    class Watching(type(ALWAYS_OFF)):  # type: ignore[misc]
        def should_sample(self, context: Any, trace_id: Any, name: str, *rest: Any) -> Any:
            seen.append((name, dict(rest[1])))
            return super().should_sample(context, trace_id, name, *rest)

    traced.open(add, sampler=Watching(ALWAYS_OFF._decision))
    traced.call("add", a=1, b=2)
    traced.call("add", a=1, b=2)

    (first, before), (second, after) = seen
    assert first == second == "execute_tool add"
    assert before.items() <= after.items()
    assert before["gen_ai.operation.name"] == "execute_tool"
    assert after["gen_ai.tool.type"] == "function"
    assert traced.spans == []
    assert traced.points()[0].count == 2


def test_a_tool_that_has_changed_is_described_as_it_is_now(traced: Any) -> None:
    class Offering:
        description = "Be the first."

        @hookimpl
        def toolstile_lookup(self) -> Any:
            return tool(name="changing", description=self.description)(lambda: None)

    offering = Offering()
    traced.open(plugins=(offering,))
    traced.call("changing")
    offering.description = "Be the second."
    traced.call("changing")
    described = [each.attributes["gen_ai.tool.description"] for each in traced.spans]
    assert described == ["Be the first.", "Be the second."]


def test_the_tool_has_its_own_name_whatever_it_was_called(traced: Any) -> None:
    traced.open(weather)
    for _ in range(2):
        traced.call("Weather.Now")

    assert [span.name for span in traced.spans] == ["execute_tool weather"] * 2
    assert {span.attributes["gen_ai.tool.name"] for span in traced.spans} == {"weather"}


FAILURES = {
    "returned": ("failed", "execute", "tool_error", True),
    "raised": ("error", "execute", "KeyError", True),
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_failure_is_an_error_that_names_its_class(traced: Any, how: str) -> None:
    outcome, stage, error, rolled_back = FAILURES[how]
    traced.open(fail)
    text = traced.call("fail", how=how).text

    assert traced.span.status.status_code is StatusCode.ERROR
    assert traced.span.status.description == text
    attributes = traced.attributes()
    assert attributes["toolstile.outcome"] == outcome
    assert attributes["toolstile.stage"] == stage
    assert attributes["error.type"] == error
    assert attributes["toolstile.rolled_back"] is rolled_back
    assert "toolstile.executed" not in attributes
    # No exception is recorded: its text and its traceback may hold anything.
    assert traced.span.events == ()


def test_a_timeout_is_called_so(traced: Any) -> None:
    traced.open(sleep)
    traced.call("sleep")
    assert traced.attributes()["error.type"] == "timeout"
    assert traced.attributes()["toolstile.outcome"] == "timed_out"


@pytest.mark.parametrize(
    ("name", "arguments", "outcome", "stage"),
    [
        ("ad", {}, "unknown_tool", "lookup"),
        ("add", {"a": "one"}, "invalid", "parse"),
    ],
)
def test_a_call_that_cannot_begin_says_that_it_did_not_run(
    traced: Any, name: str, arguments: Any, outcome: str, stage: str
) -> None:
    traced.open(add)
    traced.call(name, **arguments)

    attributes = traced.attributes()
    assert attributes["toolstile.outcome"] == attributes["error.type"] == outcome
    assert attributes["toolstile.stage"] == stage
    assert attributes["toolstile.executed"] is False
    assert traced.span.status.status_code is StatusCode.ERROR


def test_a_cancelled_call_says_so(traced: Any) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    traced.open(add)
    traced.dispatch(ToolCall("add", {"a": 1, "b": 2}, cancellation=cancellation))
    assert traced.attributes()["error.type"] == "cancelled"
    assert traced.attributes()["toolstile.executed"] is False


def test_a_denial_names_the_policy_and_the_reason(traced: Any) -> None:
    traced.open(add, policies=(Never(),))
    traced.call("add", a=1, b=2)

    reason = "Not before lunch. Have lunch, then retry."
    assert traced.span.status.description == reason
    attributes = traced.attributes()
    assert attributes["toolstile.outcome"] == attributes["error.type"] == "denied"
    assert attributes["toolstile.stage"] == "check"
    assert attributes["toolstile.executed"] is False
    assert attributes["toolstile.policy.names"] == ("never",)
    assert attributes["toolstile.policy.verdicts"] == ("deny",)
    assert attributes["toolstile.policy.reasons"] == (reason,)


@pytest.mark.parametrize(("answer", "outcome"), [(True, "succeeded"), (False, "denied")])
def test_an_approval_is_told(traced: Any, answer: bool, outcome: str) -> None:
    traced.open(risky, approver=lambda request: answer)
    traced.call("risky")
    assert traced.attributes()["toolstile.outcome"] == outcome
    assert traced.attributes()["toolstile.approval"] == ("approved" if answer else "denied")


def test_a_call_that_waits_for_approval_has_not_failed(traced: Any) -> None:
    from toolstile_hookspecs import ApprovalAnswer

    traced.open(risky, approver=lambda request: ApprovalAnswer.pending())
    token = traced.call("risky").approval_token

    attributes = traced.attributes()
    assert attributes["toolstile.outcome"] == attributes["toolstile.approval"] == "pending"
    assert attributes["toolstile.executed"] is False
    assert "error.type" not in attributes
    assert traced.span.status.status_code is StatusCode.UNSET
    assert token not in traced.span.to_json()


def test_what_pauses_the_run_is_no_error(traced: Any) -> None:
    traced.open(fail)
    with pytest.raises(Interrupt):
        traced.call("fail", how="interrupt")
    assert traced.attributes()["toolstile.outcome"] == "raised"
    assert "error.type" not in traced.attributes()
    assert traced.span.status.status_code is StatusCode.UNSET


def test_what_leaves_dispatch_is_named(traced: Any) -> None:
    @tool
    def stop() -> None:
        """Stop everything."""
        raise KeyboardInterrupt

    traced.open(stop)
    with pytest.raises(KeyboardInterrupt):
        traced.call("stop")
    assert traced.attributes()["error.type"] == "KeyboardInterrupt"


def test_a_nested_call_names_its_parent(traced: Any, nested_tool: Any) -> None:
    traced.open(add, nested_tool(is_async=traced.driver == "async"))
    traced.call("outer")
    inner = dict(traced.named("execute_tool add").attributes)
    assert inner["toolstile.parent.call.id"] == "call_1"
    assert inner["toolstile.pending_parent"] is True


def test_a_result_from_elsewhere_is_told(traced: Any) -> None:
    class Ledger:
        @hookimpl
        def toolstile_execute(self, tool: Any, params: Any, context: ToolContext) -> Any:
            context.set_attribute("ledger.state", "hit")
            return ToolResult.ok(3)

    traced.open(add, plugins=(Ledger(),))
    traced.call("add", a=1, b=2)
    attributes = traced.attributes()
    assert attributes["toolstile.replayed"] is True
    assert attributes["toolstile.ledger.state"] == "hit"
    assert attributes["toolstile.executed"] is False


def test_a_name_that_is_no_text_keeps_no_span_from_being_exported(traced: Any) -> None:
    traced.open(add)
    traced.call("add\ud800")
    assert traced.span.name == r"execute_tool add\ud800"
    assert traced.attributes()["gen_ai.tool.name"] == r"add\ud800"
    encode_spans([traced.span]).SerializeToString()


def test_ids_and_reasons_that_are_no_text_are_exported_all_the_same(
    traced: Any, nested_tool: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(Never):
        name = "never\ud800"

        def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
            context.set_attribute("ledger.state", "hit\ud800")
            return PolicyDecision.deny("No \ud800.") if params else PolicyDecision.allow()

    outer = nested_tool(is_async=traced.driver == "async")
    traced.open(add, outer, policies=(Odd(),), session=Session(id="s\ud800"))
    traced.dispatch(ToolCall("outer", id="call\ud800"))
    encode_spans(traced.spans).SerializeToString()
    assert caplog.messages == []
    inner = dict(traced.named("execute_tool add").attributes)
    assert inner["toolstile.parent.call.id"] == r"call\ud800"
    assert inner["toolstile.policy.reasons"] == (r"No \ud800.",)


def test_a_name_that_a_model_made_up_is_cut(traced: Any) -> None:
    traced.open(add)
    traced.call("x" * 10_000)
    assert len(traced.span.name) < 200
    assert len(traced.attributes()["gen_ai.tool.name"]) == 128
    assert traced.points()[0].attributes["gen_ai.tool.name"] == "_OTHER"


def test_a_span_says_the_version_of_a_tool_that_has_one(traced: Any) -> None:
    @tool(version="1.2.0")
    def look() -> str:
        """Look."""
        return "seen"

    traced.open(look)
    traced.call("look")
    assert traced.attributes()["toolstile.tool.version"] == "1.2.0"


@tool(contained=True)
def keep(text: str) -> str:
    """Keep a text."""
    return text


@pytest.mark.parametrize("how", ["committed", "rolled_back", "conflict"])
def test_a_transaction_is_a_span_that_its_calls_name(traced: Any, how: str) -> None:
    @tool(contained=True)
    def count(context: ToolContext) -> int:
        """Count texts."""
        return len(context.session[str].all())

    tools = traced.open(keep, count)
    with suppress(TransactionFailed), tools.transaction("a trip") as work:
        work.dispatch(ToolCall("count", {}))
        work.dispatch(ToolCall("keep", {"text": "a"}))
        if how == "rolled_back":
            work.rollback("No luck.")
        if how == "conflict":
            tools.session[str].append("other")
    span, called = traced.named("toolstile.transaction"), traced.named("execute_tool keep")
    assert called.attributes["toolstile.transaction.id"] == work.id
    assert span.attributes["toolstile.transaction.id"] == work.id
    assert span.attributes["toolstile.transaction.title"] == "a trip"
    assert span.attributes["toolstile.transaction.calls"] == 2
    assert span.attributes["toolstile.outcome"] == how
    assert span.attributes.get("toolstile.transaction.reason", "") == work.ended.reason
    assert span.start_time <= called.start_time <= span.end_time
    is_error = span.status.status_code is StatusCode.ERROR
    assert is_error is (how == "conflict")


def test_a_call_of_a_child_has_the_path_of_its_agent(traced: Any) -> None:
    tools = traced.open(keep)
    tools.dispatch(ToolCall("keep", {"text": "a"}))
    tools.child("reader").dispatch(ToolCall("keep", {"text": "b"}))
    agents = [span.attributes.get("toolstile.agent") for span in traced.spans]
    assert agents == [None, "main/reader"]

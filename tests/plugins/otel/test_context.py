"""Spans belong where they should: to what was current, and to what came with the call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.trace import format_span_id, format_trace_id

from toolstile_hookspecs import ToolCall, ToolContext, tool

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
REMOTE = {"traceparent": f"00-{TRACE}-{SPAN}-01", "progressToken": 7}


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def current() -> str:
    return format_span_id(trace.get_current_span().get_span_context().span_id)


@tool
def inline() -> str:
    """Say which span is current."""
    return current()


@tool(timeout=30)
def on_a_thread() -> str:
    """Say which span is current, on a thread of its own."""
    return current()


@tool
async def on_a_loop() -> str:
    """Say which span is current, on an event loop."""
    await asyncio.sleep(0)
    return current()


@tool(timeout=30)
async def in_a_task() -> str:
    """Say which span is current, in a task of its own."""
    await asyncio.sleep(0)
    return current()


HANDLERS = [inline, on_a_thread, on_a_loop, in_a_task]


@pytest.mark.parametrize("made", HANDLERS, ids=lambda each: each.name)
def test_the_calls_span_is_current_in_its_handler(traced: Any, made: Any) -> None:
    traced.open(made)
    text = traced.call(made.name).text
    assert text == format_span_id(traced.span.context.span_id)
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("made", HANDLERS, ids=lambda each: each.name)
def test_calls_of_a_batch_have_spans_of_their_own(traced: Any, made: Any) -> None:
    traced.open(made)
    with traced.provider.get_tracer("tests").start_as_current_span("agent") as agent:
        outcomes = traced.dispatch_all([ToolCall(made.name, id=f"call_{n}") for n in range(4)])

    spans = {each.attributes["gen_ai.tool.call.id"]: each for each in traced.spans[:-1]}
    for number, outcome in enumerate(outcomes):
        span = spans[f"call_{number}"]
        assert outcome.text == format_span_id(span.context.span_id)
        assert span.parent == agent.get_span_context()


def test_a_nested_call_is_a_child(traced: Any, nested_tool: Any) -> None:
    traced.open(add, nested_tool(is_async=traced.driver == "async"))
    traced.call("outer")
    inner, outer = traced.named("execute_tool add"), traced.named("execute_tool outer")
    assert inner.parent == outer.context
    assert outer.parent is None


def test_a_traceparent_that_comes_with_a_call_is_its_parent(traced: Any) -> None:
    traced.open(add)
    traced.dispatch(ToolCall("add", {"a": 1, "b": 2}, meta=REMOTE))
    span = traced.span
    assert format_trace_id(span.context.trace_id) == TRACE
    assert format_span_id(span.parent.span_id) == SPAN
    assert span.parent.is_remote


def test_a_nested_call_that_inherits_it_is_a_child_all_the_same(
    traced: Any, nested_tool: Any
) -> None:
    traced.open(add, nested_tool(is_async=traced.driver == "async"))
    traced.dispatch(ToolCall("outer", meta=REMOTE))
    inner, outer = traced.named("execute_tool add"), traced.named("execute_tool outer")
    assert format_span_id(outer.parent.span_id) == SPAN
    assert inner.parent == outer.context
    assert format_trace_id(inner.context.trace_id) == TRACE


def test_a_span_of_the_same_trace_is_nearer(traced: Any) -> None:
    from opentelemetry import propagate

    traced.open(add)
    remote = propagate.extract({"traceparent": REMOTE["traceparent"]})
    tracer = traced.provider.get_tracer("tests")
    with tracer.start_as_current_span("server", remote) as server:
        traced.dispatch(ToolCall("add", {"a": 1, "b": 2}, meta=REMOTE))
    span = traced.named("execute_tool add")
    assert span.parent == server.get_span_context()
    assert span.links == ()


def test_a_span_of_another_trace_is_linked(traced: Any) -> None:
    traced.open(add)
    with traced.provider.get_tracer("tests").start_as_current_span("server") as server:
        traced.dispatch(ToolCall("add", {"a": 1, "b": 2}, meta=REMOTE))
    span = traced.named("execute_tool add")
    assert format_span_id(span.parent.span_id) == SPAN
    (link,) = span.links
    assert link.context == server.get_span_context()


@pytest.mark.parametrize(
    "meta",
    [{"traceparent": "nonsense"}, {"traceparent": 7}, {"other": "x"}, {"baggage": "a=\udce9"}],
)
def test_what_is_no_traceparent_does_no_harm(traced: Any, meta: Any) -> None:
    traced.open(add)
    assert traced.dispatch(ToolCall("add", {"a": 1, "b": 2}, meta=meta)).success
    assert traced.span.parent is None


def test_baggage_comes_along(traced: Any) -> None:
    @tool
    def carried(*, context: ToolContext) -> str:
        """Say what came along."""
        return str(baggage.get_baggage("tenant"))

    traced.open(carried)
    meta = {**REMOTE, "baggage": "tenant=acme"}
    assert traced.dispatch(ToolCall("carried", meta=meta)).text == "acme"


def test_nothing_is_left_over_when_a_call_is_interrupted(
    trace_sync: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def wait() -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    traced = trace_sync()
    traced.open(wait)

    async def main() -> None:
        task = asyncio.create_task(traced.tools.adispatch(ToolCall("wait")))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not trace.get_current_span().get_span_context().is_valid

    asyncio.run(main())
    assert traced.attributes()["error.type"] == "CancelledError"
    assert caplog.text == ""


def test_nothing_is_left_over_when_a_batch_is_interrupted(
    trace_sync: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def stop() -> None:
        """Stop everything."""
        raise KeyboardInterrupt

    traced = trace_sync()
    traced.open(add, stop)
    calls = [ToolCall("add", {"a": 1, "b": 2}), ToolCall("stop"), ToolCall("add")]
    with pytest.raises(KeyboardInterrupt):
        traced.dispatch_all(calls)

    assert len(traced.spans) == 3
    assert not trace.get_current_span().get_span_context().is_valid
    assert "detach" not in caplog.text

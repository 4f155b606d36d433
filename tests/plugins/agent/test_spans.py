"""A run, its requests and its calls are spans of one tree, as the GenAI conventions name them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from toolstile import Host, MarkdownSection, Prompt, Settings, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import Cancellation
from toolstile_hookspecs.agents.messages import Message, Role, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import FaultType, ModelRequest, ProviderError
from toolstile_plugins import otel
from toolstile_plugins.agent import Agent, AgentConfig, Retries

AGENT, CHAT = "invoke_agent demo:sums", "chat script"


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


PROMPT = Prompt.of("demo", "sums", [MarkdownSection(key="s", title="Sums", tools=[add])])
SUMS: Any = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans that an application's own provider exports."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


@pytest.fixture
def host() -> Iterator[Host]:
    with Host(discover=False, plugins=[otel]) as host:
        yield host


@pytest.fixture(params=["sync", "sync, cancellable", "async"])
def run(request: pytest.FixtureRequest) -> Any:
    def run(agent: Agent[Any], said: str) -> Any:
        if request.param == "async":
            return asyncio.run(agent.arun(said))
        stop = Cancellation() if "cancellable" in request.param else None
        return agent.run(said, cancellation=stop)

    return run


def named(exported: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exported.get_finished_spans() if span.name == name]


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def test_requests_and_parallel_calls_are_below_the_span_of_the_run(
    exported: InMemorySpanExporter, host: Host, run: Any
) -> None:
    result = run(Agent(PROMPT, adapter=ScriptedModel(SUMS, "Done."), host=host), "Add")

    [agent] = named(exported, AGENT)
    spans = exported.get_finished_spans()
    assert sorted(span.name for span in spans) == [CHAT, CHAT, *["execute_tool add"] * 2, AGENT]
    below = {parent_of(span) for span in spans if span is not agent}
    assert below == {agent.context.span_id}
    assert parent_of(agent) is None
    assert (agent.kind, named(exported, CHAT)[0].kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
    assert dict(agent.attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "script",
        "gen_ai.agent.name": "demo:sums",
        "gen_ai.conversation.id": result.session_id,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 200,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 0,
    }


def test_a_request_has_its_tokens_and_the_reason_of_its_end(
    exported: InMemorySpanExporter, host: Host, run: Any
) -> None:
    usage = Usage(50, 7, 20, 5, 3)
    asking = ScriptedModel(SUMS, usage=usage).send(ModelRequest("", []))
    model = ScriptedModel(replace(asking, response_id="r_1"), "Done.")
    result = run(Agent(PROMPT, adapter=model, host=host), "Add")

    first, second = named(exported, CHAT)
    assert dict(first.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "script",
        "gen_ai.conversation.id": result.session_id,
        "gen_ai.response.model": "script",
        "gen_ai.response.id": "r_1",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 50,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 20,
        "gen_ai.usage.cache_creation.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 3,
    }
    assert (second.attributes or {})["gen_ai.response.finish_reasons"] == ("stop",)
    assert "gen_ai.response.id" not in (second.attributes or {})
    assert first.status.status_code is StatusCode.UNSET


def test_each_try_has_a_span_and_a_run_that_goes_on_has_no_error(
    exported: InMemorySpanExporter, host: Host, run: Any
) -> None:
    limited = ProviderError("slow down", FaultType.RATE_LIMIT, retry_after=0.0)
    run(Agent(PROMPT, adapter=ScriptedModel(limited, "Done."), host=host), "Add")

    first, second = named(exported, CHAT)
    assert (first.attributes or {})["error.type"] == "rate_limit"
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "slow down")
    assert "error.type" not in (second.attributes or {})
    [agent] = named(exported, AGENT)
    assert "error.type" not in (agent.attributes or {})
    assert agent.status.status_code is StatusCode.UNSET


def test_every_span_of_a_conversation_has_its_id(exported: InMemorySpanExporter, run: Any) -> None:
    settings = Settings.model_validate({"plugins": {"otel": {"stages": True}}})
    with Host(discover=["otel"], settings=settings) as host:
        result = run(Agent(PROMPT, adapter=ScriptedModel(SUMS, "Done."), host=host), "Add")

    spans = exported.get_finished_spans()
    assert {"toolstile.stage execute", "execute_tool add", CHAT, AGENT} <= {s.name for s in spans}
    ids = [(span.attributes or {}).get("gen_ai.conversation.id") for span in spans]
    assert ids == [result.session_id] * len(spans)


def raising(_: ModelRequest) -> str:
    raise KeyError("odd")


@pytest.mark.parametrize(
    ("answers", "error_type"),
    [
        ([ProviderError("gone", FaultType.UNAVAILABLE, retry_after=0.0)] * 2, "unavailable"),
        ([raising], "KeyError"),
        ([Turn(Message(Role.ASSISTANT, "So"), StopReason.MAX_TOKENS)], "max_tokens"),
        ([SUMS] * 3, "turns"),
    ],
)
def test_a_run_that_fails_has_the_type_of_its_error(
    exported: InMemorySpanExporter, host: Host, run: Any, answers: list[Any], error_type: str
) -> None:
    config = AgentConfig(max_turns=2, retries=Retries(attempts=2))
    agent = Agent[str](PROMPT, adapter=ScriptedModel(*answers), host=host, config=config)
    result = run(agent, "Add")

    [span] = named(exported, AGENT)
    assert (span.attributes or {})["error.type"] == error_type
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == result.error


def test_content_is_there_only_where_it_is_captured(
    exported: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    for capture in ("false", "true"):
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", capture)
        with Host(discover=False, plugins=[otel]) as host:
            run(Agent(PROMPT, adapter=ScriptedModel(SUMS, "Done."), host=host), "Add these.")

    without, _, captured, last = named(exported, CHAT)
    assert "Add these." not in str(dict(without.attributes or {}))
    known: dict[str, Any] = dict(captured.attributes or {})
    assert json.loads(known["gen_ai.system_instructions"])[0]["content"].startswith("# Sums")
    assert json.loads(known["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Add these."}]}
    ]
    [told] = json.loads(known["gen_ai.output.messages"])
    assert (told["role"], told["finish_reason"]) == ("assistant", "tool_call")
    assert [part["name"] for part in told["parts"]] == ["add", "add"]
    assert "Done." in str(dict(last.attributes or {}))


def test_without_a_provider_nothing_of_it_is_imported() -> None:
    code = """
import sys
from toolstile import Host, Prompt
from toolstile.testing import ScriptedModel
from toolstile_plugins.agent import Agent

with Host() as host:
    result = Agent(Prompt.of("a", "b", []), adapter=ScriptedModel("Hi."), host=host).run("Hi")
assert result.text == "Hi.", result.error
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

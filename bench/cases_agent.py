"""A run of an agent, beside those of pydantic-ai and of the OpenAI Agents SDK, all of them traced.

Ten turns with three calls each, a model without latency; CPU time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from time import process_time
from typing import Any, Final

from full_host import Tally, Watch
from measuring import Block, Case, Effort, Probe, Row, compare
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from workload import add

from toolstile import Host, MarkdownSection, Prompt
from toolstile_hookspecs import tool as make_tool
from toolstile_hookspecs.agents.messages import CallMade, Message, Role, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import Listener, ModelRequest
from toolstile_plugins.agent import Agent

TURNS: Final = 10
CALLS: Final = 3
ARGUMENTS: Final = [json.dumps({"a": number, "b": 1}) for number in range(CALLS)]


class FastModel:
    """A model without latency: calls for ten turns, then a text."""

    name = "fast"
    model = "fast"

    def send(self, request: ModelRequest, listen: Listener | None = None) -> Turn:  # noqa: ARG002
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        if turn == TURNS:
            return Turn(Message(Role.ASSISTANT, "done"), StopReason.END, Usage(10, 1))
        calls = tuple(
            CallMade(f"call_{turn}_{index}", "add", given) for index, given in enumerate(ARGUMENTS)
        )
        return Turn(Message(Role.ASSISTANT, calls=calls), StopReason.TOOL_USE, Usage(10, 1))

    async def asend(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        return self.send(request, listen)

    def close(self) -> None:
        return None


class Nowhere(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002 - the protocol's
        return SpanExportResult.SUCCESS


def provider() -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(Nowhere()))
    return made


@cache
def _traced() -> None:
    """Let the process have a provider, which it can have once."""
    trace.set_tracer_provider(provider())


@contextmanager
def cpu_time_on_loop(run: Callable[[], Awaitable[object]]) -> Iterator[Block]:
    async def measure(times: int) -> float:
        started = process_time()
        for _ in range(times):
            await run()
        return process_time() - started

    with asyncio.Runner() as runner:
        yield lambda times: runner.run(measure(times))


@contextmanager
def ours() -> Iterator[Block]:
    _traced()
    prompt = Prompt.of(
        "bench", "adder", [MarkdownSection(key="a", title="Adder", tools=[make_tool(add)])]
    )
    with Host(policies=[Watch(), Tally()]) as host:
        agent = Agent[str](prompt, adapter=FastModel(), host=host)

        async def run() -> None:
            result, _ = await agent.aexecute("Add.")
            assert result.turns == TURNS + 1

        with cpu_time_on_loop(run) as block:
            yield block


@contextmanager
def pydantic_ai() -> Iterator[Block]:
    from pydantic_ai import Agent as Theirs
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.instrumented import InstrumentationSettings

    def reply(messages: list[Any], _: Any) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn == TURNS:
            return ModelResponse([TextPart("done")])
        return ModelResponse(
            [ToolCallPart("add", given, f"call_{turn}_{i}") for i, given in enumerate(ARGUMENTS)]
        )

    traced = Instrumentation(InstrumentationSettings(tracer_provider=provider()))
    agent = Theirs(FunctionModel(reply), capabilities=[traced])

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    async def run() -> None:
        assert (await agent.run("Add.")).output == "done"

    with cpu_time_on_loop(run) as block:
        yield block


@contextmanager
def openai_agents() -> Iterator[Block]:
    import agents
    from agents.tracing.processors import BatchTraceProcessor
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    class Exporter:
        def export(self, items: Any) -> None:
            del items

    agents.set_trace_processors([BatchTraceProcessor(Exporter())])

    class Fast(agents.Model):
        async def get_response(self, *args: Any, **given: Any) -> Any:  # noqa: ARG002
            so_far = given["input"]
            made = [] if isinstance(so_far, str) else so_far
            turn = sum(item.get("type") == "function_call" for item in made) // CALLS
            usage = agents.Usage(requests=1, input_tokens=10, output_tokens=1, total_tokens=11)
            if turn == TURNS:
                text = ResponseOutputText(text="done", type="output_text", annotations=[])
                items: list[Any] = [
                    ResponseOutputMessage(
                        id="m", content=[text], role="assistant", status="completed", type="message"
                    )
                ]
            else:
                items = [
                    ResponseFunctionToolCall(
                        call_id=f"call_{turn}_{i}", name="add", arguments=a, type="function_call"
                    )
                    for i, a in enumerate(ARGUMENTS)
                ]
            return agents.ModelResponse(output=items, usage=usage, response_id=None)

        def stream_response(self, *args: Any, **kw: Any) -> Any:
            raise NotImplementedError

    @agents.function_tool
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    agent = agents.Agent(name="adder", tools=[add], model=Fast())

    async def run() -> None:
        result = await agents.Runner.run(agent, "Add.", max_turns=TURNS + 2)
        assert result.final_output == "done"

    with cpu_time_on_loop(run) as block:
        yield block


def measure_agent(effort: Effort) -> list[Row]:
    """Measure a run, with those of the others as its floors."""
    mine = "a run of ten turns with three calls each"
    return [
        row
        for name, theirs in (("pydantic-ai", pydantic_ai), ("OpenAI Agents SDK", openai_agents))
        for row in compare(
            [Case(Probe(f"{mine}, beside {name}", ours), Probe(f"{name}: the same", theirs), 1.0)],
            effort,
        )
    ]

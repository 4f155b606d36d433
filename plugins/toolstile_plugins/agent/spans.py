"""The spans of a run and of its requests, by OpenTelemetry's conventions for GenAI."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final

from opentelemetry.metrics import Histogram
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from toolstile_hookspecs.agents.messages import Message, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import (
    Delta,
    Listener,
    ModelRequest,
    ProviderAdapter,
    ProviderError,
)
from toolstile_hookspecs.codecs import encodable
from toolstile_plugins.agent.result import RunFailed
from toolstile_plugins.otel.attributes import ERROR_TYPE, OPERATION_NAME, Attributes
from toolstile_plugins.otel.spans import BUCKETS, CallTracing

INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
REQUEST_MODEL: Final = "gen_ai.request.model"

_POWERS: Final = tuple(2**power for power in range(8))

METRICS: Final = {
    "client.operation.duration": ("s", BUCKETS, "A request to the model."),
    "client.operation.time_to_first_chunk": ("s", BUCKETS, "Until a streamed reply begins."),
    "client.operation.time_per_output_chunk": ("s", BUCKETS, "Between two pieces of a reply."),
    "client.token.usage": ("{token}", tuple(4**power for power in range(14)), "Of a request."),
    "invoke_agent.duration": ("s", tuple(0.1 * 2**power for power in range(13)), "A run."),
    "invoke_agent.inference_calls": ("{inference_call}", _POWERS, "The requests of a run."),
    "invoke_agent.tool_calls": ("{tool_call}", _POWERS, "The model's calls in a run."),
}
"""The histograms of the conventions: unit, upper bounds of the buckets, and meaning."""

_FINISHES: Final = {
    StopReason.END: "stop",
    StopReason.TOOL_USE: "tool_call",
    StopReason.MAX_TOKENS: "length",
    StopReason.REFUSED: "content_filter",
}


class RunSpans:
    """Opens the spans of one run, with the providers of the tracing of the host's calls."""

    def __init__(self, tracing: CallTracing, adapter: ProviderAdapter) -> None:
        self._tracer = tracing.tracer
        self._capture = tracing.capture
        self._histograms: dict[str, Histogram] = {
            name: tracing.meter.create_histogram(
                f"gen_ai.{name}", unit, meaning, explicit_bucket_boundaries_advisory=bounds
            )
            for name, (unit, bounds, meaning) in METRICS.items()
        }
        self._shared: Attributes = {
            "gen_ai.provider.name": adapter.name,
            REQUEST_MODEL: adapter.model,
        }
        self._conversation: Attributes = {}
        self._requests = self._calls = 0

    @contextmanager
    def invoke_agent(
        self, prompt: str, session_id: str
    ) -> Generator[Callable[[StopReason, Usage], None]]:
        """Open the span of the run; give a function that notes its end."""
        self._conversation = {"gen_ai.conversation.id": encodable(session_id)}
        known = {"gen_ai.agent.name": prompt}
        with self._span(INVOKE_AGENT, prompt, SpanKind.INTERNAL, known) as (span, measured):

            def ended(reason: StopReason, usage: Usage) -> None:
                span.set_attribute(FINISH_REASONS, [_FINISHES.get(reason, reason.value)])
                span.set_attributes(_used(usage))
                self._record("invoke_agent.inference_calls", self._requests, measured)
                self._record("invoke_agent.tool_calls", self._calls, measured)

            yield ended

    @contextmanager
    def chat(
        self, request: ModelRequest, listener: Listener | None
    ) -> Generator[tuple[Listener | None, Callable[[Turn], None]]]:
        """Open the span of a request; give a timed listener, and a function that notes a reply."""
        model = self._shared[REQUEST_MODEL]
        self._requests += 1
        with self._span(CHAT, model, SpanKind.CLIENT, {}) as (span, measured):
            if self._capture:
                told = [_shown(each) for each in request.messages]
                span.set_attribute(
                    "gen_ai.system_instructions", json.dumps([_text(request.system)])
                )
                span.set_attribute("gen_ai.input.messages", json.dumps(told))

            def answered(turn: Turn) -> None:
                reason = _FINISHES.get(turn.stop_reason, turn.stop_reason.value)
                span.set_attribute(FINISH_REASONS, [reason])
                if turn.model:
                    measured["gen_ai.response.model"] = encodable(turn.model)
                    span.set_attribute("gen_ai.response.model", encodable(turn.model))
                if turn.response_id:
                    span.set_attribute("gen_ai.response.id", encodable(turn.response_id))
                if turn.usage is not None:
                    self._count(turn.usage, span, measured)
                if self._capture:
                    said = {**_shown(turn.message), "finish_reason": reason}
                    span.set_attribute("gen_ai.output.messages", json.dumps([said]))
                self._calls += len(turn.tool_calls)

            yield self._timed(listener, measured), answered

    @contextmanager
    def _span(
        self, operation: str, of: str, kind: SpanKind, known: Attributes
    ) -> Generator[tuple[Span, Attributes]]:
        """Open a span as the current one; note its duration, and the error that leaves it."""
        measured: Attributes = {OPERATION_NAME: operation, **self._shared, **known}
        began = perf_counter()
        with self._tracer.start_as_current_span(
            f"{operation} {of}",
            kind=kind,
            attributes={**measured, **self._conversation},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span, measured
            except BaseException as error:
                if isinstance(error, ProviderError) and error.usage is not None:
                    self._count(error.usage, span, measured)
                measured[ERROR_TYPE] = _error_type(error)
                span.set_attribute(ERROR_TYPE, measured[ERROR_TYPE])
                span.set_status(Status(StatusCode.ERROR, encodable(str(error))))
                raise
            finally:
                name = "client.operation" if kind is SpanKind.CLIENT else operation
                self._record(f"{name}.duration", perf_counter() - began, measured)

    def _timed(self, listener: Listener | None, measured: Attributes) -> Listener | None:
        """Return a listener that also notes the time of each chunk of a stream."""
        if listener is None:
            return None
        last, name = perf_counter(), "time_to_first_chunk"

        def hear(delta: Delta) -> None:
            nonlocal last, name
            now = perf_counter()
            self._record(f"client.operation.{name}", now - last, measured)
            last, name = now, "time_per_output_chunk"
            listener(delta)

        return hear

    def _count(self, usage: Usage, span: Span, measured: Attributes) -> None:
        span.set_attributes(_used(usage))
        for type_, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            self._record("client.token.usage", tokens, {**measured, "gen_ai.token.type": type_})

    def _record(self, metric: str, amount: float, attributes: Attributes) -> None:
        self._histograms[metric].record(amount, attributes)


def _error_type(error: BaseException) -> str:
    if isinstance(error, RunFailed):
        if error.stop_reason is not StopReason.ERROR:
            return error.stop_reason.value
        if error.__cause__ is not None:
            return _error_type(error.__cause__)
    return error.type.value if isinstance(error, ProviderError) else type(error).__qualname__


def _used(usage: Usage) -> Attributes:
    told: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
    }
    # Not every provider reports these: a missing number is not zero.
    some = {
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_written_tokens or None,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
        "toolstile.usage.cost": usage.cost,
    }
    return told | {name: value for name, value in some.items() if value is not None}


def _shown(message: Message) -> dict[str, Any]:
    """Return a message as the conventions write it.

    The spans of the calls have the arguments and results, with secrets masked.
    """
    parts = [_text(message.text)] if message.text else []
    parts += [{"type": "tool_call", "id": call.id, "name": call.name} for call in message.calls]
    parts += [{"type": "tool_call_response", "id": each.call_id} for each in message.answers]
    return {"role": message.role.value, "parts": parts}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}

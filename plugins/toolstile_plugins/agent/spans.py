"""The spans of a run and of its requests, by OpenTelemetry's conventions for GenAI."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from toolstile_hookspecs.agents.messages import Message, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import ModelRequest, ProviderAdapter, ProviderError
from toolstile_hookspecs.codecs import encodable
from toolstile_plugins.agent.result import RunFailed
from toolstile_plugins.otel.attributes import ERROR_TYPE, OPERATION_NAME, Attributes
from toolstile_plugins.otel.spans import CallTracing

INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
REQUEST_MODEL: Final = "gen_ai.request.model"

_FINISHES: Final = {
    StopReason.END: "stop",
    StopReason.TOOL_USE: "tool_call",
    StopReason.MAX_TOKENS: "length",
    StopReason.REFUSED: "content_filter",
}


class RunSpans:
    """Opens the spans of one run.

    Args:
        tracing: The tracing of the host's calls, whose providers are used.
        adapter: The adapter of the provider.
    """

    def __init__(self, tracing: CallTracing, adapter: ProviderAdapter) -> None:
        self._tracer = tracing.tracer
        self._capture = tracing.capture
        self._shared: Attributes = {
            "gen_ai.provider.name": adapter.name,
            REQUEST_MODEL: adapter.model,
        }

    @contextmanager
    def invoke_agent(
        self, prompt: str, session_id: str
    ) -> Generator[Callable[[StopReason, Usage], None]]:
        """Open the span of the run; give what notes its end."""
        known = {
            "gen_ai.agent.name": prompt,
            "gen_ai.conversation.id": encodable(session_id),
        }
        with self._span(INVOKE_AGENT, prompt, SpanKind.INTERNAL, known) as span:

            def ended(reason: StopReason, usage: Usage) -> None:
                span.set_attribute(FINISH_REASONS, [_FINISHES.get(reason, reason.value)])
                span.set_attributes(_used(usage))

            yield ended

    @contextmanager
    def chat(self, request: ModelRequest) -> Generator[Callable[[Turn], Turn]]:
        """Open the span of one request; give what notes its reply and returns it."""
        with self._span(CHAT, self._shared[REQUEST_MODEL], SpanKind.CLIENT, {}) as span:
            if self._capture:
                told = [_shown(each) for each in request.messages]
                span.set_attribute(
                    "gen_ai.system_instructions", json.dumps([_text(request.system)])
                )
                span.set_attribute("gen_ai.input.messages", json.dumps(told))

            def answered(turn: Turn) -> Turn:
                reason = _FINISHES.get(turn.stop_reason, turn.stop_reason.value)
                span.set_attribute(FINISH_REASONS, [reason])
                if turn.model:
                    span.set_attribute("gen_ai.response.model", encodable(turn.model))
                if turn.usage is not None:
                    span.set_attributes(_used(turn.usage))
                if self._capture:
                    said = {**_shown(turn.message), "finish_reason": reason}
                    span.set_attribute("gen_ai.output.messages", json.dumps([said]))
                return turn

            yield answered

    @contextmanager
    def _span(self, operation: str, of: str, kind: SpanKind, known: Attributes) -> Generator[Span]:
        """Open a span, and let it be the current one; note the error that leaves it."""
        with self._tracer.start_as_current_span(
            f"{operation} {of}",
            kind=kind,
            attributes={OPERATION_NAME: operation, **self._shared, **known},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                if isinstance(error, ProviderError) and error.usage is not None:
                    span.set_attributes(_used(error.usage))
                span.set_attribute(ERROR_TYPE, _error_type(error))
                span.set_status(Status(StatusCode.ERROR, encodable(str(error))))
                raise


def _error_type(error: BaseException) -> str:
    """Return the class of an error, of a provider's its type, of a run's the reason of its end."""
    if isinstance(error, RunFailed):
        if error.stop_reason is not StopReason.ERROR:
            return error.stop_reason.value
        if error.__cause__ is not None:
            return _error_type(error.__cause__)
    return error.type.value if isinstance(error, ProviderError) else type(error).__qualname__


def _used(usage: Usage) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
    }


def _shown(message: Message) -> dict[str, Any]:
    """Return a message as the conventions write it.

    Arguments and results are left to the spans of the calls, where secrets are masked.
    """
    parts = [_text(message.text)] if message.text else []
    parts += [{"type": "tool_call", "id": call.id, "name": call.name} for call in message.calls]
    parts += [{"type": "tool_call_response", "id": each.call_id} for each in message.answers]
    return {"role": message.role.value, "parts": parts}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}

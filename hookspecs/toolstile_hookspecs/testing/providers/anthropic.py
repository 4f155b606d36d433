"""A fake of Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from toolstile_hookspecs.agents.messages import StopReason, Turn
from toolstile_hookspecs.agents.provider import FaultType, ProviderError
from toolstile_hookspecs.testing.providers.server import STATUS, Events, Json, pieces
from toolstile_hookspecs.testing.providers.strict import CallsInOrder

_ERRORS: Final = {
    FaultType.RATE_LIMIT: (429, "rate_limit_error"),
    FaultType.QUOTA: (402, "billing_error"),
    FaultType.TIMEOUT: (504, "timeout_error"),
    FaultType.UNAVAILABLE: (529, "overloaded_error"),
}
_STOPS: Final = {
    StopReason.TOOL_USE: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.REFUSED: "refusal",
    StopReason.INCOMPLETE: "pause_turn",
}


class AnthropicApi:
    """The Messages API."""

    path = "/v1/messages"

    def faults(self, body: Json) -> Iterator[str]:
        """Yield how a request breaks the protocol."""
        calls = CallsInOrder(r"[a-zA-Z0-9_-]+")
        if body["messages"][0]["role"] != "user":
            yield "the first message is not the user's"
        for message in body["messages"]:
            content = message["content"]
            if not content:
                yield "a message is empty"
            for block in (
                [{"type": "text", "text": content}] if isinstance(content, str) else content
            ):
                yield from self._faults_of(block, calls)
            if message["role"] == "user":
                yield from calls.others()
        yield from calls.others()

    def _faults_of(self, block: Json, calls: CallsInOrder) -> Iterator[str]:
        match block["type"]:
            case "tool_result":
                yield from calls.result(block["tool_use_id"])
            case "tool_use":
                if not isinstance(block["input"], dict):
                    yield "the input of a call is no object"
                yield from calls.call(block["id"], block["name"], block["input"])
            case "text" if not block["text"].strip():
                yield "a text is empty"
            case _:
                yield from calls.others()

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        """Return a turn as a message."""
        del body
        content: list[Json] = [{"type": "text", "text": turn.text}] if turn.text else []
        for index, call in enumerate(turn.tool_calls):
            use = {"id": call.id or f"toolu_{number}_{index}", "name": call.name}
            content.append({"type": "tool_use", **use, "input": _parsed(call.arguments)})
        used = turn.usage
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "fake",
            "content": content,
            "stop_reason": _STOPS.get(turn.stop_reason, "end_turn"),
            "stop_sequence": None,
            "usage": used
            and {
                "input_tokens": used.input_tokens - used.cached_tokens - used.cache_written_tokens,
                "cache_creation_input_tokens": used.cache_written_tokens,
                "cache_read_input_tokens": used.cached_tokens,
                "output_tokens": used.output_tokens,
                "output_tokens_details": {"thinking_tokens": used.reasoning_tokens},
            },
        }

    def events(self, reply: Json, body: Json) -> Events:
        """Return a message as events."""
        del body
        usage = {**reply["usage"], "output_tokens": 1}
        begun: Json = {**reply, "content": [], "stop_reason": None, "usage": usage}
        events: list[Json] = [{"type": "message_start", "message": begun}]
        for index, block in enumerate(reply["content"]):
            at = {"index": index}
            empty = {name: type(block[name])() for name in _FIELDS if name in block}
            if block["type"] == "tool_use":
                empty["input"] = {}
            events.append({"type": "content_block_start", **at, "content_block": block | empty})
            added = {"type": "content_block_delta", **at}
            events += [{**added, "delta": each} for each in _deltas(block)]
            events.append({"type": "content_block_stop", **at})
        ended = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ended, "usage": reply["usage"]})
        return [*events, {"type": "message_stop"}]

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        """Return the status and the body of a fault."""
        status, type_ = _ERRORS.get(fault.type, (STATUS[fault.type], "invalid_request_error"))
        return status, {"type": "error", "error": {"type": type_, "message": str(fault)}}


_FIELDS: Final = ("text", "thinking", "signature")


def _parsed(arguments: str) -> Any:
    """Return arguments as a whole reply has them; what is no JSON stays a text."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _deltas(block: Json) -> list[Json]:
    if block["type"] == "tool_use":
        given = block["input"]
        text = given if isinstance(given, str) else json.dumps(given)
        return [{"type": "input_json_delta", "partial_json": part} for part in ["", *pieces(text)]]
    names = [name for name in _FIELDS if name in block]
    return [{"type": f"{name}_delta", name: part} for name in names for part in pieces(block[name])]

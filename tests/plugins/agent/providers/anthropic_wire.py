"""The shapes of Anthropic's Messages API, of a model that thinks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.plugins.agent.providers.played_server import STATUS, Json, pieces

from toolstile_hookspecs.agents.messages import StopReason, Turn
from toolstile_hookspecs.agents.provider import FaultType, ProviderError

FIELDS = {
    *("model", "messages", "system", "max_tokens", "tools", "tool_choice", "stop_sequences"),
    *("thinking", "output_config", "cache_control", "metadata", "service_tier", "stream"),
}
ERRORS = {
    FaultType.RATE_LIMIT: (429, "rate_limit_error"),
    FaultType.QUOTA: (402, "billing_error"),
    FaultType.TIMEOUT: (504, "timeout_error"),
    FaultType.UNAVAILABLE: (529, "overloaded_error"),
}
STOPS = {
    StopReason.END: "end_turn",
    StopReason.TOOL_USE: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.REFUSED: "refusal",
    StopReason.INCOMPLETE: "pause_turn",
}
SCHEMA_WORDS = {
    *("type", "properties", "required", "additionalProperties", "items", "anyOf", "enum"),
    *("const", "$ref", "$defs", "description", "title", "format"),
}


def schema_fault(schema: Any) -> str | None:
    """Return how a schema is not one of structured outputs."""
    if unknown := sorted(schema.keys() - SCHEMA_WORDS):
        return f"output_config.format.schema: property '{unknown[0]}' is not supported"
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return "output_config.format.schema: 'additionalProperties' must be false"
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return next((found for each in inner if (found := schema_fault(each))), None)


class AnthropicWire:
    """The Messages API; each reply begins with thinking, signed."""

    path = "/v1/messages"

    def __init__(self) -> None:
        self.slips = {
            "a missing result": self._leave_out,
            "results in another order": self._turn_round,
            "a changed item": self._change,
        }

    def fault(self, body: Json, sent: Sequence[Json]) -> str | None:
        if unknown := sorted(body.keys() - FIELDS):
            return f"{unknown[0]}: Extra inputs are not permitted"
        if missing := sorted({"model", "messages", "max_tokens"} - body.keys()):
            return f"{missing[0]}: Field required"
        for index, tool in enumerate(body.get("tools", ())):
            if unknown := sorted(
                tool.keys() - {"name", "description", "input_schema", "input_examples"}
            ):
                return f"tools.{index}.custom.{unknown[0]}: Extra inputs are not permitted"
        if (wanted := body.get("output_config", {}).get("format")) is not None:
            if wanted.keys() != {"type", "schema"}:
                return "output_config.format: Extra inputs are not permitted"
            if found := schema_fault(wanted["schema"]):
                return found
        return self._fault_of_messages(body["messages"], sent)

    def _fault_of_messages(self, messages: list[Json], sent: Sequence[Json]) -> str | None:
        before = [block for reply in sent for block in reply["content"]]
        waiting: list[str] = []
        for number, message in enumerate(messages):
            if not message["content"]:
                return f"messages.{number}: all messages must have non-empty content"
            for block in message["content"]:
                if found := self._fault_of_block(block):
                    return f"messages.{number}.{found}"
            results = [block for block in message["content"] if block["type"] == "tool_result"]
            answered = [block["tool_use_id"] for block in results]
            if left := [each for each in waiting if each not in answered]:
                return (
                    f"messages.{number}: `tool_use` ids were found without `tool_result` blocks "
                    f"immediately after: {', '.join(left)}"
                )
            # The API itself takes any order; that of the calls is ours.
            if answered != waiting or message["content"][: len(results)] != results:
                return f"messages.{number}: unexpected order of `tool_result` blocks"
            waiting = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            thinking = [block for block in message["content"] if "thinking" in block["type"]]
            if any(block not in before for block in thinking):
                return f"messages.{number}.content.0: Invalid `signature` in `thinking` block"
        return f"`tool_use` ids without `tool_result` blocks: {waiting}" if waiting else None

    def _fault_of_block(self, block: Json) -> str | None:
        match block["type"]:
            case "text" if not block["text"].strip():
                return "content: text content blocks must be non-empty"
            case "tool_use" if not isinstance(block["input"], dict):
                return "content.tool_use.input: Input should be a valid dictionary"
            case _:
                return None

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        content: list[Json] = [
            {"type": "thinking", "thinking": "I do it.", "signature": f"EqQBCgIYAh{number}=="}
        ]
        if turn.tool_calls:
            content.append({"type": "redacted_thinking", "data": f"EmwKAhgB{number}=="})
        if turn.text:
            content.append({"type": "text", "text": turn.text})
        for index, call in enumerate(turn.tool_calls):
            use = {"id": call.id or f"toolu_{number}{index}Zk3", "name": call.name}
            given = _parsed(call.arguments)
            content.append({"type": "tool_use", **use, "input": given})
        used = turn.usage
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-6",
            "content": content,
            "stop_reason": STOPS[turn.stop_reason],
            "stop_sequence": None,
            "usage": used
            and {
                "input_tokens": used.input_tokens - used.cached_tokens - used.cache_written_tokens,
                "cache_creation_input_tokens": used.cache_written_tokens,
                "cache_read_input_tokens": used.cached_tokens,
                "output_tokens": used.output_tokens,
                "output_tokens_details": {"thinking_tokens": used.reasoning_tokens},
                "service_tier": "standard",
            },
        }

    def events(self, reply: Json, body: Json) -> list[tuple[str | None, Json | str]]:
        events: list[tuple[str | None, Json | str]] = []

        def tell(name: str, **data: Any) -> None:
            events.append((name, {"type": name, **data}))

        usage = {**reply["usage"], "output_tokens": 1}
        begun = {**reply, "content": [], "stop_reason": None, "usage": usage}
        tell("message_start", message=begun)
        for index, block in enumerate(reply["content"]):
            empty = {
                name: type(value)() if name in {"text", "thinking", "signature"} else value
                for name, value in block.items()
            }
            if block["type"] == "tool_use":
                empty["input"] = {}
            tell("content_block_start", index=index, content_block=empty)
            for delta in _deltas(block):
                tell("content_block_delta", index=index, delta=delta)
            tell("content_block_stop", index=index)
        tell("ping")
        delta = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
        tell("message_delta", delta=delta, usage=reply["usage"])
        tell("message_stop")
        return events

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        status, type_ = ERRORS.get(fault.type, (STATUS[fault.type], "invalid_request_error"))
        told = {"type": type_, "message": str(fault)}
        return status, {"type": "error", "error": told, "request_id": "req_011C"}

    def _leave_out(self, body: Json) -> None:
        del body["messages"][-1]["content"][0]

    def _turn_round(self, body: Json) -> None:
        body["messages"][-1]["content"].reverse()

    def _change(self, body: Json) -> None:
        body["messages"][1]["content"][0]["signature"] += "A"


def _parsed(arguments: str) -> Any:
    """Return arguments as a whole reply has them; what is no JSON stays a text."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _deltas(block: Json) -> list[Json]:
    match block["type"]:
        case "text":
            return [{"type": "text_delta", "text": part} for part in pieces(block["text"])]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            return [thought, {"type": "signature_delta", "signature": block["signature"]}]
        case "tool_use":
            given = block["input"]
            text = given if isinstance(given, str) else json.dumps(given)
            return [
                {"type": "input_json_delta", "partial_json": part} for part in ["", *pieces(text)]
            ]
        case _:
            return []

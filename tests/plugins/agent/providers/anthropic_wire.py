"""The shapes of Anthropic's Messages API, of a model that thinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolstile_hookspecs.agents.messages import Turn
from toolstile_hookspecs.testing.providers import AnthropicApi, Events, Json

FIELDS = {
    *("model", "messages", "system", "max_tokens", "tools", "tool_choice", "stop_sequences"),
    *("thinking", "output_config", "cache_control", "metadata", "service_tier", "stream"),
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


class AnthropicWire(AnthropicApi):
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
        return next(self.faults(body), None) or self._change_of(body["messages"], sent)

    def _change_of(self, messages: list[Json], sent: Sequence[Json]) -> str | None:
        before = [block for reply in sent for block in reply["content"]]
        for number, message in enumerate(messages):
            thinking = [block for block in message["content"] if "thinking" in block["type"]]
            if any(block not in before for block in thinking):
                return f"messages.{number}.content.0: Invalid `signature` in `thinking` block"
        return None

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        reply = super().reply(turn, number, body)
        signature = f"EqQBCgIYAh{number}=="
        thoughts = [{"type": "thinking", "thinking": "I do it.", "signature": signature}]
        if turn.tool_calls:
            thoughts.append({"type": "redacted_thinking", "data": f"EmwKAhgB{number}=="})
        model = {"model": "claude-sonnet-4-6", "content": [*thoughts, *reply["content"]]}
        return {**reply, **model}

    def events(self, reply: Json, body: Json) -> Events:
        events = super().events(reply, body)
        return [*events[:-2], {"type": "ping"}, *events[-2:]]

    def _leave_out(self, body: Json) -> None:
        del body["messages"][-1]["content"][0]

    def _turn_round(self, body: Json) -> None:
        body["messages"][-1]["content"].reverse()

    def _change(self, body: Json) -> None:
        body["messages"][1]["content"][0]["signature"] += "A"

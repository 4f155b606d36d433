"""The shapes of OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from toolstile_hookspecs.agents.messages import Turn
from toolstile_hookspecs.testing.providers import ChatApi, Json

FIELDS = {
    *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format"),
    *("temperature", "top_p", "stop", "seed", "max_tokens", "max_completion_tokens"),
    *("reasoning_effort", "stream", "stream_options"),
}


def strict_fault(schema: Any) -> str | None:
    """Return how a schema is not one of strict mode."""
    if isinstance(schema, list):
        return next((found for each in schema if (found := strict_fault(each))), None)
    if not isinstance(schema, dict):
        return None
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false."
        if sorted(schema.get("required", ())) != sorted(schema["properties"]):
            return "'required' is required to include every key in properties."
    return next((found for each in schema.values() if (found := strict_fault(each))), None)


class ChatWire(ChatApi):
    """Chat Completions; replies carry a field that only some servers have."""

    path = "/v1/chat/completions"

    def __init__(self) -> None:
        self.slips = {
            "a missing result": self._leave_out,
            "results in another order": self._turn_round,
            "a changed item": self._change,
        }

    def fault(self, body: Json, sent: Sequence[Json]) -> str | None:
        if unknown := sorted(body.keys() - FIELDS):
            return f"Unrecognized request argument supplied: {unknown[0]}"
        for tool in body.get("tools", ()):
            function = tool["function"]
            if function["strict"] and (found := strict_fault(function["parameters"])):
                return f"Invalid schema for function '{function['name']}': {found}"
        wanted = body.get("response_format", {}).get("json_schema", {})
        if wanted.get("strict") and (found := strict_fault(wanted["schema"])):
            return f"Invalid schema for response_format '{wanted['name']}': {found}"
        return next(self.faults(body), None) or self._change_of(body["messages"], sent)

    def _change_of(self, messages: list[Json], sent: Sequence[Json]) -> str | None:
        before = {
            call["id"]: reply["choices"][0]["message"]
            for reply in sent
            for call in reply["choices"][0]["message"].get("tool_calls", ())
        }
        for number, message in enumerate(messages):
            calls = message.get("tool_calls")
            known = before.get(calls[0]["id"]) if calls else None
            if known is not None and kept(message) != kept(known):
                return f"messages.[{number}] is not the message that was generated."
        return None

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        reply = super().reply(turn, number, body)
        message = reply["choices"][0]["message"]
        message["annotations"] = []
        if turn.tool_calls:
            message["reasoning_content"] = "The user wants it, so it is to be done."
        return {**reply, "model": "gpt-5-mini-2025-08-07", "service_tier": "default"}

    def _leave_out(self, body: Json) -> None:
        body["messages"].remove(_of_role(body, "tool")[0])

    def _turn_round(self, body: Json) -> None:
        first, second = _of_role(body, "tool")[:2]
        first["tool_call_id"], second["tool_call_id"] = (
            second["tool_call_id"],
            first["tool_call_id"],
        )

    def _change(self, body: Json) -> None:
        _of_role(body, "assistant")[0]["reasoning_content"] += " Or not."


def kept(message: Json) -> Json:
    """Return all of a message that goes back as it came: calls may get another id, and arguments.

    A stream does not bring what is empty.
    """
    made = deepcopy({name: value for name, value in message.items() if value})
    for call in made.get("tool_calls", ()):
        del call["id"], call["function"]["arguments"]
    return made


def _of_role(body: Json, role: str) -> list[Json]:
    return [message for message in body["messages"] if message["role"] == role]

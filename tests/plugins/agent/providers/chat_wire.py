"""The shapes of OpenAI's Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

from tests.plugins.agent.providers.played_server import STATUS, Json, pieces

from toolstile_hookspecs.agents.messages import StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import FaultType, ProviderError

FIELDS = {
    *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format"),
    *("temperature", "top_p", "stop", "seed", "max_tokens", "max_completion_tokens"),
    *("reasoning_effort", "stream", "stream_options"),
}
ERRORS = {
    FaultType.RATE_LIMIT: ("requests", "rate_limit_exceeded"),
    FaultType.QUOTA: ("insufficient_quota", "insufficient_quota"),
    FaultType.REFUSED: ("invalid_request_error", None),
}
FINISH = {
    StopReason.END: "stop",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.MAX_TOKENS: "length",
    StopReason.REFUSED: "stop",
}


def error(fault: ProviderError) -> tuple[int, Json]:
    """Return the status and the body of a fault of either API."""
    type_, code = ERRORS.get(fault.type, ("server_error", None))
    told = {"message": str(fault), "type": type_, "param": None, "code": code}
    return STATUS[fault.type], {"error": told}


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


class ChatWire:
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
        return self._fault_of_messages(body["messages"], sent)

    def _fault_of_messages(self, messages: list[Json], sent: Sequence[Json]) -> str | None:
        before = {
            call["id"]: reply["choices"][0]["message"]
            for reply in sent
            for call in reply["choices"][0]["message"].get("tool_calls", ())
        }
        waiting: list[str] = []
        for number, message in enumerate(messages):
            if message["role"] == "tool":
                if not waiting or message["tool_call_id"] != waiting.pop(0):
                    return (
                        f"messages.[{number}]: a message with role 'tool' must be a response to a "
                        "preceding message with 'tool_calls'."
                    )
                continue
            if waiting:
                return (
                    "An assistant message with 'tool_calls' must be followed by tool messages "
                    f"responding to each 'tool_call_id': {waiting[0]}"
                )
            calls = message.get("tool_calls", ())
            if message["role"] == "assistant" and not calls and not message["content"]:
                return f"messages.[{number}].content: expected a string, got null."
            waiting = [call["id"] for call in calls]
            known = before.get(waiting[0]) if calls else None
            if known is not None and without_empty(message) != without_empty(mended(known)):
                return f"messages.[{number}] is not the message that was generated."
        return f"No response to {waiting[0]}." if waiting else None

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        is_refused = turn.stop_reason is StopReason.REFUSED
        message: Json = {
            "role": "assistant",
            "content": None if is_refused else turn.text or None,
            "refusal": turn.text if is_refused else None,
            "annotations": [],
        }
        if turn.tool_calls:
            message["reasoning_content"] = "The user wants it, so it is to be done."
            message["tool_calls"] = [
                {
                    "id": call.id or f"call_{number}{index}Zk3",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for index, call in enumerate(turn.tool_calls)
            ]
        finish = FINISH[turn.stop_reason]
        return {
            "id": f"chatcmpl-C{number}",
            "object": "chat.completion",
            "created": 1_764_000_000,
            "model": "gpt-5-mini-2025-08-07",
            "choices": [
                {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
            ],
            "usage": None if turn.usage is None else usage(turn.usage),
            "service_tier": "default",
            "system_fingerprint": None,
        }

    def events(self, reply: Json, body: Json) -> list[tuple[str | None, Json | str]]:
        [choice] = reply["choices"]
        message = choice["message"]
        begun = "" if message["content"] else None
        deltas: list[Json] = [{"role": "assistant", "content": begun, "refusal": None}]
        if "reasoning_content" in message:
            deltas += [{"reasoning_content": part} for part in pieces(message["reasoning_content"])]
        deltas += [{"content": part} for part in pieces(message["content"] or "")]
        deltas += [{"refusal": part} for part in pieces(message["refusal"] or "")]
        for index, call in enumerate(message.get("tool_calls", ())):
            function = {"name": call["function"]["name"], "arguments": ""}
            deltas.append({"tool_calls": [{"index": index, **call, "function": function}]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
                for part in pieces(call["function"]["arguments"])
            ]
        choices: list[tuple[list[Json], Any]] = [
            ([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}], None)
            for delta in deltas
        ]
        last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"]}
        choices.append(([last], None))
        if body.get("stream_options", {}).get("include_usage"):
            choices.append(([], reply["usage"]))
        base = {name: reply[name] for name in ("id", "created", "model", "service_tier")}
        chunks: list[tuple[str | None, Json | str]] = [
            (None, {**base, "object": "chat.completion.chunk", "choices": each, "usage": used})
            for each, used in choices
        ]
        return [*chunks, (None, "[DONE]")]

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        return error(fault)

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


def usage(used: Usage) -> Json:
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": used.cached_tokens,
            "cache_write_tokens": used.cache_written_tokens,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": used.reasoning_tokens,
            "audio_tokens": 0,
        },
    }


def mended(message: Json) -> Json:
    """Return a message as it may go back: arguments that are no JSON are none."""
    made = deepcopy(message)
    for call in made.get("tool_calls", ()):
        if not is_json(call["function"]["arguments"]):
            call["function"]["arguments"] = "{}"
    return made


def is_json(text: str) -> bool:
    with suppress(ValueError):
        json.loads(text)
        return True
    return False


def without_empty(message: Json) -> Json:
    """Return a message without what a stream does not bring."""
    return {name: value for name, value in message.items() if value}


def _of_role(body: Json, role: str) -> list[Json]:
    return [message for message in body["messages"] if message["role"] == role]

"""The shapes of OpenAI's Responses API, of a model that reasons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from tests.plugins.agent.providers.chat_wire import error, is_json, strict_fault
from tests.plugins.agent.providers.played_server import Json, pieces

from toolstile_hookspecs.agents.messages import StopReason, Turn
from toolstile_hookspecs.agents.provider import ProviderError

FIELDS = {
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text"),
    *("temperature", "top_p", "max_output_tokens", "reasoning", "include", "store", "stream"),
}


class ResponsesWire:
    """The Responses API; each reply begins with reasoning, encrypted where that is asked for."""

    path = "/v1/responses"

    def __init__(self) -> None:
        self.slips = {
            "a missing result": self._leave_out,
            "results in another order": self._turn_round,
            "a changed item": self._change,
        }

    def fault(self, body: Json, sent: Sequence[Json]) -> str | None:
        if unknown := sorted(body.keys() - FIELDS):
            return f"Unknown parameter: '{unknown[0]}'."
        for tool in body.get("tools", ()):
            if tool["strict"] and (found := strict_fault(tool["parameters"])):
                return f"Invalid schema for function '{tool['name']}': {found}"
        wanted = body.get("text", {}).get("format", {})
        if wanted.get("strict") and (found := strict_fault(wanted["schema"])):
            return f"Invalid schema for response_format '{wanted['name']}': {found}"
        return self._fault_of_items(body["input"], sent)

    def _fault_of_items(self, items: list[Json], sent: Sequence[Json]) -> str | None:
        before = {item["id"]: item for reply in sent for item in reply["output"]}
        waiting: list[str] = []
        needs_more = ""
        for item in items:
            type_ = item.get("type", "message")
            if type_ == "function_call_output":
                if not waiting or item["call_id"] != waiting.pop(0):
                    return f"No tool call found for function call output {item['call_id']}."
                continue
            if type_ != "function_call" and waiting:
                return f"No tool output found for function call {waiting[0]}."
            if type_ == "function_call":
                waiting.append(item["call_id"])
            known = before.get(item.get("id", ""))
            if type_ == "function_call" and known and not is_json(known["arguments"]):
                known = {**known, "arguments": "{}"}
            if "id" in item and item != known:
                return f"Item '{item['id']}' could not be verified."
            if needs_more and item.get("role") == "user":
                return f"Item '{needs_more}' of type 'reasoning' was provided without its item."
            needs_more = item["id"] if type_ == "reasoning" else ""
            if type_ == "reasoning" and not item["encrypted_content"]:
                return f"Item with id '{item['id']}' not found; `store` is set to false."
        return f"No tool output found for function call {waiting[0]}." if waiting else None

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        is_cut = turn.stop_reason is StopReason.MAX_TOKENS
        status = "incomplete" if is_cut else "completed"
        is_encrypted = "reasoning.encrypted_content" in body.get("include", ())
        output: list[Json] = [
            {
                "id": f"rs_{number}",
                "type": "reasoning",
                "summary": [],
                "encrypted_content": f"gAAAAABo{number}==" if is_encrypted else None,
            }
        ]
        if turn.text:
            part = {"type": "output_text", "annotations": [], "logprobs": [], "text": turn.text}
            if turn.stop_reason is StopReason.REFUSED:
                part = {"type": "refusal", "refusal": turn.text}
            output.append(
                {
                    "id": f"msg_{number}",
                    "type": "message",
                    "status": status,
                    "role": "assistant",
                    "content": [part],
                }
            )
        for index, call in enumerate(turn.tool_calls):
            output.append(
                {
                    "id": f"fc_{number}{index}",
                    "type": "function_call",
                    "status": status,
                    "call_id": call.id or f"call_{number}{index}Zk3",
                    "name": call.name,
                    "arguments": call.arguments,
                }
            )
        used = turn.usage
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1_764_000_000,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "model": "gpt-5-mini-2025-08-07",
            "output": output,
            "parallel_tool_calls": True,
            "reasoning": {"effort": "medium", "summary": None},
            "service_tier": "default",
            "store": body["store"],
            "temperature": 1.0,
            "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": used
            and {
                "input_tokens": used.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": used.cached_tokens,
                    "cache_write_tokens": used.cache_written_tokens,
                },
                "output_tokens": used.output_tokens,
                "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
                "total_tokens": used.total_tokens,
            },
            "metadata": {},
        }

    def events(self, reply: Json, body: Json) -> list[tuple[str | None, Json | str]]:
        numbers = count()
        events: list[tuple[str | None, Json | str]] = []

        def tell(name: str, **data: Any) -> None:
            data = {"type": f"response.{name}", "sequence_number": next(numbers), **data}
            events.append((f"response.{name}", data))

        begun = {**reply, "status": "in_progress", "output": [], "usage": None}
        tell("created", response=begun)
        tell("in_progress", response=begun)
        for index, item in enumerate(reply["output"]):
            where = {"output_index": index}
            empty = {
                name: type(value)() if name in {"content", "arguments"} else value
                for name, value in item.items()
            }
            tell("output_item.added", **where, item={**empty, "status": "in_progress"})
            here = {**where, "item_id": item["id"]}
            for part in item.get("content", ()):
                place, name = {**here, "content_index": 0}, part["type"]
                field = "refusal" if name == "refusal" else "text"
                tell("content_part.added", **place, part={**part, field: ""})
                for piece in pieces(part[field]):
                    tell(f"{name}.delta", **place, delta=piece, logprobs=[])
                tell(f"{name}.done", **place, **{field: part[field]}, logprobs=[])
                tell("content_part.done", **place, part=part)
            for piece in pieces(item.get("arguments", "")):
                tell("function_call_arguments.delta", **here, delta=piece)
            if "arguments" in item:
                tell("function_call_arguments.done", **here, arguments=item["arguments"])
            tell("output_item.done", **where, item=item)
        tell(reply["status"], response=reply)
        return events

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        return error(fault)

    def _leave_out(self, body: Json) -> None:
        body["input"].remove(_of_type(body, "function_call_output")[0])

    def _turn_round(self, body: Json) -> None:
        first, second = _of_type(body, "function_call_output")[:2]
        first["call_id"], second["call_id"] = second["call_id"], first["call_id"]

    def _change(self, body: Json) -> None:
        _of_type(body, "reasoning")[0]["encrypted_content"] += "A"


def _of_type(body: Json, type_: str) -> list[Json]:
    return [item for item in body["input"] if item.get("type") == type_]

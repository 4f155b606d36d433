"""The shapes of OpenAI's Responses API, of a model that reasons."""

from __future__ import annotations

from collections.abc import Sequence

from tests.plugins.agent.providers.chat_wire import strict_fault

from toolstile_hookspecs.agents.messages import Turn
from toolstile_hookspecs.testing.providers import Json, ResponsesApi

FIELDS = {
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text"),
    *("temperature", "top_p", "max_output_tokens", "reasoning", "include", "store", "stream"),
}


class ResponsesWire(ResponsesApi):
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
        return next(self.faults(body), None) or self._change_of(body["input"], sent)

    def _change_of(self, items: list[Json], sent: Sequence[Json]) -> str | None:
        before = {item["id"]: item for reply in sent for item in reply["output"]}
        needs_more = ""
        for item in items:
            type_ = item.get("type", "message")
            known = before.get(item.get("id", ""))
            if type_ == "function_call" and known:  # which may get another id, and arguments
                known = {**known, "call_id": item["call_id"], "arguments": item["arguments"]}
            if "id" in item and item != known:
                return f"Item '{item['id']}' could not be verified."
            if needs_more and item.get("role") == "user":
                return f"Item '{needs_more}' of type 'reasoning' was provided without its item."
            needs_more = item["id"] if type_ == "reasoning" else ""
            if type_ == "reasoning" and not item["encrypted_content"]:
                return f"Item with id '{item['id']}' not found; `store` is set to false."
        return None

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        reply = super().reply(turn, number, body)
        is_encrypted = "reasoning.encrypted_content" in body.get("include", ())
        thought: Json = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
        thought["encrypted_content"] = f"gAAAAABo{number}==" if is_encrypted else None
        output = [thought, *reply["output"]]
        return {**reply, "model": "gpt-5-mini-2025-08-07", "output": output, "store": body["store"]}

    def _leave_out(self, body: Json) -> None:
        body["input"].remove(_of_type(body, "function_call_output")[0])

    def _turn_round(self, body: Json) -> None:
        first, second = _of_type(body, "function_call_output")[:2]
        first["call_id"], second["call_id"] = second["call_id"], first["call_id"]

    def _change(self, body: Json) -> None:
        _of_type(body, "reasoning")[0]["encrypted_content"] += "A"


def _of_type(body: Json, type_: str) -> list[Json]:
    return [item for item in body["input"] if item.get("type") == type_]

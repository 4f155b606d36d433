"""A fake of OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from toolstile_hookspecs.agents.messages import StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import FaultType, ProviderError
from toolstile_hookspecs.testing.providers.server import STATUS, Events, Json, pieces
from toolstile_hookspecs.testing.providers.strict import CallsInOrder

_ERRORS: Final = {
    FaultType.RATE_LIMIT: ("requests", "rate_limit_exceeded"),
    FaultType.QUOTA: ("insufficient_quota", "insufficient_quota"),
    FaultType.REFUSED: ("invalid_request_error", None),
}
_FINISHES: Final = {StopReason.TOOL_USE: "tool_calls", StopReason.MAX_TOKENS: "length"}


def error(fault: ProviderError) -> tuple[int, Json]:
    """Return the status and the body of a fault of either API of OpenAI."""
    type_, code = _ERRORS.get(fault.type, ("server_error", None))
    told = {"message": str(fault), "type": type_, "param": None, "code": code}
    return STATUS[fault.type], {"error": told}


class ChatApi:
    """Chat Completions, as the strictest of the servers that speak it."""

    path = "/chat/completions"

    def faults(self, body: Json) -> Iterator[str]:
        """Yield how a request breaks the protocol."""
        calls = CallsInOrder()
        for message in body["messages"]:
            said = message.get("content") or message.get("refusal")
            if message["role"] == "tool":
                yield from calls.result(message["tool_call_id"])
                continue
            yield from calls.others()
            made = message.get("tool_calls")
            if made == [] or message.get("function_call") or not (made or said):
                yield f"a message of the {message['role']} has no content, or an empty tool_calls"
            for each in made or ():
                function = each["function"]
                if each["type"] != "function" or not isinstance(function["arguments"], str):
                    yield "a call is no function, or its arguments are no text"
                yield from calls.call(each["id"], function["name"], function["arguments"])
        yield from calls.others()

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        """Return a turn as a completion."""
        del body
        is_refused = turn.stop_reason is StopReason.REFUSED
        said = {"refusal": turn.text} if is_refused else {"content": turn.text or None}
        calls = [
            {
                "id": call.id or f"call_{number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for index, call in enumerate(turn.tool_calls)
        ]
        more = {"tool_calls": calls} if calls else {}
        message = {"role": "assistant", "content": None, **said, **more}
        finish = _FINISHES.get(turn.stop_reason, "stop")
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1_764_000_000,
            "model": "fake",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": turn.usage and usage(turn.usage, "prompt", "completion"),
        }

    def events(self, reply: Json, body: Json) -> Events:
        """Return a completion as chunks; the tokens come where they are asked for."""
        choice = reply["choices"][0]
        deltas = self.deltas(choice["message"])
        chosen = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
        chosen.append([{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}])
        base = {**reply, "object": "chat.completion.chunk", "usage": None}
        chunks: list[Json | str] = [{**base, "choices": each} for each in chosen]
        if body.get("stream_options", {}).get("include_usage"):
            chunks.append({**base, "choices": [], "usage": reply["usage"]})
        return [*chunks, "[DONE]"]

    def deltas(self, message: Json) -> list[Json]:
        """Return a message in pieces."""
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        for name in ("reasoning_content", "content", "refusal"):
            deltas += [{name: piece} for piece in pieces(message.get(name) or "")]
        for index, call in enumerate(message.get("tool_calls", ())):
            begun = {**call, "function": {**call["function"], "arguments": ""}}
            given = pieces(call["function"]["arguments"])
            parts = [begun, *({"function": {"arguments": piece}} for piece in given)]
            deltas += [{"tool_calls": [{"index": index, **part}]} for part in parts]
        return deltas

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        """Return the status and the body of a fault."""
        return error(fault)


def usage(used: Usage, read: str, written: str) -> Json:
    """Return tokens under the names that either API of OpenAI has for them."""
    made = {"cached_tokens": used.cached_tokens, "cache_write_tokens": used.cache_written_tokens}
    return {
        f"{read}_tokens": used.input_tokens,
        f"{written}_tokens": used.output_tokens,
        "total_tokens": used.total_tokens,
        f"{read}_tokens_details": made,
        f"{written}_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }

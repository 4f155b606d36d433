"""A fake of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolstile_hookspecs.agents.messages import StopReason, Turn
from toolstile_hookspecs.agents.provider import ProviderError
from toolstile_hookspecs.testing.providers.chat import error, usage
from toolstile_hookspecs.testing.providers.server import Events, Json, pieces
from toolstile_hookspecs.testing.providers.strict import CallsInOrder


class ResponsesApi:
    """The Responses API."""

    path = "/responses"

    def faults(self, body: Json) -> Iterator[str]:
        """Yield how a request breaks the protocol."""
        calls = CallsInOrder(r"(?s).{1,64}")
        ids = [item["id"] for item in body["input"] if item.get("id")]
        if len(ids) > len({*ids}):
            yield "two items have the same id"
        last = ""
        for item in body["input"]:
            type_ = item.get("type", "message")
            if type_ not in {"function_call_output", last}:
                yield from calls.others()  # the calls of one reply stand side by side
            if type_ == "function_call_output":
                yield from calls.result(item["call_id"])
            if type_ == "function_call":
                if not isinstance(item["arguments"], str):
                    yield "the arguments of a call are no text"
                yield from calls.call(item["call_id"], item["name"], item["arguments"])
            last = type_
        yield from calls.others()

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        """Return a turn as a response."""
        del body
        is_cut = turn.stop_reason is StopReason.MAX_TOKENS
        status = {"status": "incomplete" if is_cut else "completed"}
        output: list[Json] = []
        if turn.text:
            part: Json = {"type": "output_text", "annotations": [], "text": turn.text}
            if turn.stop_reason is StopReason.REFUSED:
                part = {"type": "refusal", "refusal": turn.text}
            message = {"type": "message", "role": "assistant", "content": [part]}
            output.append({"id": f"msg_{number}", **message, **status})
        for index, call in enumerate(turn.tool_calls):
            ids = {"id": f"fc_{number}_{index}", "call_id": call.id or f"call_{number}_{index}"}
            made = {"type": "function_call", "name": call.name, "arguments": call.arguments}
            output.append({**ids, **made, **status})
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1_764_000_000,
            "model": "fake",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            **status,
            "usage": turn.usage and usage(turn.usage, "input", "output"),
        }

    def events(self, reply: Json, body: Json) -> Events:
        """Return a response as events."""
        del body
        events: list[Json] = []

        def tell(name: str, **data: Any) -> None:
            events.append({"type": f"response.{name}", "sequence_number": len(events), **data})

        tell("created", response={**reply, "status": "in_progress", "output": [], "usage": None})
        for index, item in enumerate(reply["output"]):
            here = {"output_index": index, "item_id": item["id"]}
            names = [name for name in ("content", "arguments") if name in item]
            empty = {name: type(item[name])() for name in names}
            tell("output_item.added", output_index=index, item={**item, **empty})
            for part in item.get("content", ()):
                text = part.get("text") or part.get("refusal")
                for piece in pieces(text):
                    tell(f"{part['type']}.delta", **here, content_index=0, delta=piece, logprobs=[])
            for piece in pieces(item.get("arguments", "")):
                tell("function_call_arguments.delta", **here, delta=piece)
            tell("output_item.done", output_index=index, item=item)
        tell(reply["status"], response=reply)
        return events

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        """Return the status and the body of a fault."""
        return error(fault)

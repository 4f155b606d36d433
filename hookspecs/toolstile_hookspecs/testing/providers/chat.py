"""A fake of OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from toolstile_hookspecs.testing.providers.strict import CallsInOrder

Json = dict[str, Any]


class ChatApi:
    """Chat Completions, as the strictest of the servers that speak it."""

    path: ClassVar[str] = "/chat/completions"

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

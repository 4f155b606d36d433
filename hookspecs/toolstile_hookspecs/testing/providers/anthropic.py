"""A fake of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from toolstile_hookspecs.testing.providers.strict import CallsInOrder

Json = dict[str, Any]


class AnthropicApi:
    """The Messages API."""

    path: ClassVar[str] = "/v1/messages"

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

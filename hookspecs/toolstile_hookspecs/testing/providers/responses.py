"""A fake of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from toolstile_hookspecs.testing.providers.strict import CallsInOrder

Json = dict[str, Any]


class ResponsesApi:
    """The Responses API."""

    path: ClassVar[str] = "/responses"

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

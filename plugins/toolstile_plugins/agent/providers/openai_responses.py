"""OpenAI's Responses API, without state on its side: encrypted reasoning is sent back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final

from toolstile_hookspecs import Dialect
from toolstile_hookspecs.agents.messages import CallMade, Message, Role, StopReason, Turn
from toolstile_hookspecs.agents.provider import Delta, ModelRequest, ThoughtDelta
from toolstile_plugins.agent.providers import base, openai_chat
from toolstile_plugins.dialects.openai import OpenAIResponses as ResponsesDialect
from toolstile_plugins.dialects.parse import field, parts_of, text_of
from toolstile_plugins.dialects.streams import FUNCTION_CALL, PartialCall

_REASONS: Final = re.compile(r"(o\d|gpt-([5-9]|\d\d)|codex)(?!.*chat)")
"""Models that reason; the API refuses to encrypt for others."""

_TAKEN: Final = (
    *("temperature", "top_p", "reasoning_effort", "verbosity", "service_tier", "include", "store"),
    *("prompt_cache_key", "metadata", "safety_identifier", "extra_headers", "extra_body"),
    *openai_chat.OF_TOOLS,
)
_TEXT: Final = "response.output_text.delta"
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


class OpenAIResponses(base.ClientAdapter):
    """A model behind the Responses API.

    The conversation is the session's: each request carries all of it, and `store` is false.
    """

    name: ClassVar[str] = "openai"
    dialect: ClassVar[Dialect] = ResponsesDialect()
    library: ClassVar[str] = "openai"
    clients: ClassVar[tuple[str, str]] = ("OpenAI", "AsyncOpenAI")
    takes: ClassVar[Mapping[str, str]] = {
        **{name: name for name in _TAKEN},
        "max_tokens": "max_output_tokens",
    }

    def arguments(self, request: ModelRequest) -> dict[str, Any]:
        settings = self.settings(request.settings)
        effort, verbosity = (settings.pop(name, None) for name in ("reasoning_effort", "verbosity"))
        if (name := openai_chat.chosen_tool(settings)) is not None:
            settings["tool_choice"] = {"type": "function", "name": name}
        given: dict[str, Any] = {"model": self.model, "store": False}
        messages = self.portable(request.messages)
        said: list[dict[str, Any]] = []
        for message in messages:
            items = message.items if message.dialect == self.dialect.name else ()
            if put := base.put_into(items, FUNCTION_CALL, [*map(_call, message.calls)]):
                # The API does not find reasoning again if only its id came.
                said += [
                    item
                    for item in put
                    if item["type"] != "reasoning"
                    or item.get("encrypted_content")
                    or item.get("content")
                ]
                continue
            if message.text:
                said.append({"role": message.role.value, "content": message.text})
            said += [_call(call) for call in message.calls]
            said += [
                {"type": "function_call_output", "call_id": answer.call_id, "output": answer.text}
                for answer in message.answers
            ]
        given |= {"instructions": request.system, "input": said}
        if effort is not None:
            given["reasoning"] = {"effort": effort}
        if effort is not None or _REASONS.match(self.model):
            given["include"] = ["reasoning.encrypted_content"]
        text = {} if verbosity is None else {"verbosity": verbosity}
        if request.output is not None:
            schema = openai_chat.answer_schema(request.output)
            text["format"] = {"type": "json_schema", "name": "answer", **schema}
        return openai_chat.with_tools(
            {**given, **({"text": text} if text else {}), **settings}, request, self.dialect
        )

    def method(self, client: Any) -> Callable[..., Any]:
        create: Callable[..., Any] = client.responses.create
        return create

    def deltas(self, event: Any, stream: base.StreamedReply) -> Iterator[Delta]:
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                yield event.delta
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ThoughtDelta(event.delta)
            case "response.output_item.added" if event.item.type == FUNCTION_CALL:
                call = PartialCall(event.item.name, event.item.call_id, event.item.arguments)
                stream.reader[field(event, "output_index") or event.item.id] = call
                yield base.delta_of(call, event.item.arguments)
            case "response.function_call_arguments.delta":
                key = field(event, "output_index") or field(event, "item_id")
                call = stream.reader.get(key) or PartialCall()
                call.add(event.delta)
                yield base.delta_of(call, event.delta)
            case _:
                pass

    def whole(self, stream: base.StreamedReply) -> Any:
        """Return the response of the last event; some servers leave out its items, or all items."""
        last = stream.events[-1]
        if last.type not in _ENDS:
            if fault := base.error_in(last):
                raise base.fault_in(fault, self.name)
            return None
        done = [each.item for each in stream.events if each.type == "response.output_item.done"]
        output = last.response.output
        if not output and (done or output is not None):
            last.response.output = done or self._streamed_items(stream)
        return last.response

    def _streamed_items(self, stream: base.StreamedReply) -> list[Any]:
        """Return the items of a stream that consists of deltas alone."""
        types = self.imported().types.responses
        items: list[Any] = [
            types.ResponseFunctionToolCall.construct(
                type=FUNCTION_CALL, call_id=call.call_id, name=call.name, arguments=call.arguments
            )
            for call in stream.reader.values()
        ]
        if text := "".join(each.delta for each in stream.events if each.type == _TEXT):
            said = types.ResponseOutputText.construct(type="output_text", text=text)
            made = {"type": "message", "role": "assistant", "content": [said]}
            items.insert(0, types.ResponseOutputMessage.construct(**made))
        return items

    def turn(self, reply: Any) -> Turn:
        if field(reply, "output") is None and (fault := base.error_in(reply)):
            raise base.fault_in(fault, self.name)
        usage = openai_chat.usage_of(reply.usage, "input", "output")
        if reply.error or reply.status == "failed":
            raise base.fault_in(reply.error or reply.status, self.name, usage)
        if reply.status in {"queued", "in_progress", "cancelled"}:
            raise self.cut_off(usage)
        calls = self.calls(reply)
        items = [item.to_dict(mode="json", warnings=False) for item in reply.output]
        parts = [part for item in items for part in parts_of(item.get("content"))]
        text = text_of([part for part in parts if part["type"] in {"output_text", "text"}])
        refusal = text_of([part for part in parts if part["type"] == "refusal"])
        stop = StopReason.TOOL_USE if calls else StopReason.END
        dialect = self.dialect.name
        is_odd = any(part["type"] == "text" or not field(part, "text", "refusal") for part in parts)
        if reply.status == "incomplete":
            is_filtered = reply.incomplete_details.reason == "content_filter"
            stop = StopReason.REFUSED if is_filtered else StopReason.MAX_TOKENS
        if is_odd or reply.status == "incomplete":
            dialect, items = "", []  # because the API rejects half an item
        if refusal:
            stop = StopReason.REFUSED
        said = Message(Role.ASSISTANT, text or refusal, calls, (), dialect, tuple(items))
        return Turn(said, stop, usage, reply.model, reply.id or "")


def _call(call: CallMade) -> dict[str, Any]:
    given = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
    return {"type": FUNCTION_CALL, **given}

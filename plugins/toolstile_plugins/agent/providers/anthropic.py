"""Anthropic's Messages API; thinking is sent back unchanged, with its signatures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final

from toolstile_hookspecs import ConfigurationError, Dialect
from toolstile_hookspecs.agents.messages import CallMade, Message, Role, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import Delta, ModelRequest, ThoughtDelta
from toolstile_plugins.agent.providers import base
from toolstile_plugins.dialects import parse as reading
from toolstile_plugins.dialects.anthropic import TOOL_USE, Anthropic as AnthropicDialect
from toolstile_plugins.dialects.openai_strict import strict_schema
from toolstile_plugins.dialects.streams import AnthropicMessage

MAX_TOKENS: Final = 16_000
"""The limit of a reply without the setting; the API requires a limit."""

_TAKEN: Final = (
    *("max_tokens", "thinking", "reasoning_effort", "cache_control", "metadata", "container"),
    *("service_tier", "inference_geo", "speed", "tool_choice", "parallel_tool_calls"),
    *("extra_headers", "extra_body"),
)
_STOPS: Final = {
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSED,
    "pause_turn": StopReason.INCOMPLETE,
}
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}


class Anthropic(base.ClientAdapter):
    """A model behind the Messages API.

    A reply has at most `MAX_TOKENS` tokens unless the setting `max_tokens` says otherwise. The API
    has no `temperature`; `thinking`, `reasoning_effort` and `cache_control` are settings.
    """

    name: ClassVar[str] = "anthropic"
    dialect: ClassVar[Dialect] = AnthropicDialect()
    library: ClassVar[str] = "anthropic"
    clients: ClassVar[tuple[str, str]] = ("Anthropic", "AsyncAnthropic")
    takes: ClassVar[Mapping[str, str]] = {
        **{name: name for name in _TAKEN},
        "stop": "stop_sequences",
    }
    reader: ClassVar[type[Any]] = AnthropicMessage

    def arguments(self, request: ModelRequest) -> dict[str, Any]:
        settings = self.settings(request.settings)
        effort, choice = settings.pop("reasoning_effort", None), _choice(settings)
        if isinstance(stop := settings.get("stop_sequences"), str):
            settings["stop_sequences"] = [stop]
        given: dict[str, Any] = {"model": self.model, "max_tokens": MAX_TOKENS, **settings}
        given["messages"] = sent = list[dict[str, Any]]()
        for message in self.portable(request.messages):
            role = "assistant" if message.role is Role.ASSISTANT else "user"
            items = message.items if message.dialect == self.dialect.name else ()
            put = base.put_into(items, TOOL_USE, [*map(_call, message.calls)])
            content = put or _blocks(message)
            sent += [{"role": role, "content": content}] if content else []
        system, config = request.system, {} if effort is None else {"effort": effort}
        if (schema := request.output) is not None:
            if strict_schema(dict(schema)) is None:  # open objects, which the API would close
                system += f"\n\nAnswer with JSON alone, of this JSON Schema: {json.dumps(schema)}"
            else:
                fitting = self.imported().transform_schema(dict(schema))
                config["format"] = {"type": "json_schema", "schema": fitting}
        more: dict[str, Any] = {"system": system, "output_config": config}
        if request.tools:
            more["tools"] = self.dialect.schemas(request.tools)
            more["tool_choice"] = choice
        return {**given, **{name: value for name, value in more.items() if value}}

    def method(self, client: Any) -> Callable[..., Any]:

        def create(**given: Any) -> Any:
            # Without a timeout, the library refuses to wait for a long reply.
            return client.messages.create(**{"timeout": client.timeout, **given})

        return create

    def deltas(self, event: Any, stream: base.StreamedReply) -> Iterator[Delta]:
        delta, call = stream.reader.add(event)
        if call is not None:
            yield base.delta_of(call, delta.get("partial_json"))
        elif thought := delta.get("thinking"):
            yield ThoughtDelta(thought)
        elif text := delta.get("text"):
            yield text

    def whole(self, stream: base.StreamedReply) -> Any:
        reader: AnthropicMessage = stream.reader
        said = reader.message
        return {**said, "content": reader.content() or said.get("content")} if said else None

    def used(self, stream: base.StreamedReply) -> Usage | None:
        return _usage(stream.reader.message.get("usage"))

    def fault(self, error: Exception) -> Exception | None:
        if isinstance(error, TypeError) and "authentication method" in str(error):
            return ConfigurationError("Anthropic's client has no key. Set ANTHROPIC_API_KEY.")
        return super().fault(error)

    def turn(self, reply: Any) -> Turn:
        dump = getattr(reply, "to_dict", None)  # the whole of a stream is a dict
        said: dict[str, Any] = reply if dump is None else dump(mode="json", warnings=False)
        usage = _usage(said.get("usage"))
        is_whole = said.get("stop_reason") is not None
        if error := said.get("error") or (not is_whole and base.error_in(said)):
            raise base.fault_in(error, self.name, usage)
        if not is_whole:
            raise self.cut_off(usage)
        calls, content = self.calls(said), reading.parts_of(said["content"])
        stop = _STOPS.get(said["stop_reason"], StopReason.TOOL_USE if calls else StopReason.END)
        texts = [block for block in content if block["type"] == "text"]
        text = reading.text_of(texts)
        # The API rejects an empty text.
        empty = [each for each in texts if not reading.text_of([each]).strip()]
        items = tuple(each for each in content if each not in empty)
        dialect = self.dialect.name
        if stop in {StopReason.MAX_TOKENS, StopReason.REFUSED}:
            dialect, items = "", tuple[Any]()  # because the API rejects half a block
            text = text or reading.field(said.get("stop_details"), "explanation") or ""
        message = Message(Role.ASSISTANT, text, calls, (), dialect, items)
        return Turn(message, stop, usage, said["model"], said.get("id") or "")


def _choice(settings: dict[str, Any]) -> dict[str, Any]:
    """Take the choice of tools out of settings; parallel calls are a part of it."""
    choice, is_parallel = (
        settings.pop(name, None) for name in ("tool_choice", "parallel_tool_calls")
    )
    chosen: dict[str, Any] = {}
    if choice is not None:
        named = {"type": "tool", "name": choice}
        chosen = {"type": _CHOICES[choice]} if choice in _CHOICES else named
    if is_parallel is not None and choice != "none":
        chosen = {"type": "auto", **chosen, "disable_parallel_tool_use": not is_parallel}
    return chosen


def _blocks(message: Message) -> list[dict[str, Any]]:
    """Return the blocks of a message of another provider."""
    text = [{"type": "text", "text": message.text}] if message.text.strip() else []
    blocks: list[dict[str, Any]] = [*text, *map(_call, message.calls)]
    for answer in message.answers:
        result = {"type": "tool_result", "tool_use_id": answer.call_id}
        content = {"content": answer.text} if answer.text else {}
        blocks.append({**result, "is_error": answer.is_error, **content})
    return blocks


def _call(call: CallMade) -> dict[str, Any]:
    return {"type": TOOL_USE, "id": call.id, "name": call.name, "input": call.params}


def _usage(used: Mapping[str, Any] | None) -> Usage | None:
    """Return the tokens; the API counts cached tokens beside the input."""
    if not used:
        return None
    read, made = (used.get(f"cache_{each}_input_tokens") or 0 for each in ("read", "creation"))
    reasoning = reading.field(used.get("output_tokens_details"), "thinking_tokens") or 0
    total, out = (used.get(f"{side}_tokens") or 0 for side in ("input", "output"))
    return Usage(total + read + made, out, read, made, reasoning)

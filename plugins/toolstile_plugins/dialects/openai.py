"""OpenAI: Chat Completions and the Responses API.

Tools are sent in strict mode where their schema allows it (see `openai_strict`). Others have
`strict` false and an unchanged schema. The host parses the arguments in both cases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from toolstile_hookspecs import Outcome, Prompt, Tool, ToolCall
from toolstile_hookspecs.execution.schemas import params_schema
from toolstile_plugins.dialects import parse as reading, streams
from toolstile_plugins.dialects.json_schema import Schema, object_rooted
from toolstile_plugins.dialects.openai_strict import strict_schema
from toolstile_plugins.dialects.parse import CUT_OFF, answer

_ITEM: Final = re.compile(r"reasoning|compaction|item_reference|mcp_\w+|\w+_call(_output)?")
"""The types of items of the Responses API that are not messages."""


class OpenAI:
    """Chat Completions.

    `calls` and `recorded` read messages of both APIs. `schemas` and `results` write for Chat
    Completions, and `OpenAIResponses` writes for the other API.

    Args:
        strict: Whether to ask for strict mode where a schema allows it.

    Example:
        >>> OpenAI().calls({"tool_calls": [
        ...     {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": ""}}
        ... ]})[0].arguments
        '{}'
    """

    name = "openai"

    def __init__(self, *, strict: bool = True) -> None:
        self._strict = strict

    def schemas(self, tools: Prompt | Iterable[Tool[Any, Any]]) -> list[dict[str, Any]]:
        """Return the tools as `tools=` of Chat Completions takes them."""
        return [
            {"type": "function", "function": self._function(tool)}
            for tool in reading.tools_of(tools)
        ]

    def calls(self, reply: Any) -> list[ToolCall]:
        """Return the calls in a completion, a message, its `tool_calls`, a response or its items.

        The events of a stream are joined. Of several choices the first counts.
        """
        entries = _streamed(reply) or reading.items(reply) or _replied(reply) or [reply]
        return _refused_where_cut_off(_calls_in(entries), reply)

    def results(self, outcomes: Sequence[Outcome | BaseException]) -> list[dict[str, Any]]:
        """Return one message of role `tool` for each outcome."""
        return [
            {"role": "tool", "tool_call_id": outcome.call_id, "content": outcome.whole_text}
            for outcome in map(answer, outcomes)
        ]

    def recorded(self, document: Any) -> list[ToolCall] | None:
        """Return the calls of recorded messages or response items, None for anything else.

        A completion or a response beside the messages is the reply to them.
        """
        if (streamed := _streamed(document)) is not None:
            return _calls_in(streamed)
        said = _said(document)
        reply = _replied(document) or ([] if said else [document])
        calls = _refused_where_cut_off(reading.joined(said, reply, _calls_in), document)
        return reading.known(calls, said or reply, _is_entry)

    def _function(self, tool: Tool[Any, Any]) -> dict[str, Any]:
        schema = params_schema(tool)
        strict: Schema | None = strict_schema(schema) if self._strict else None
        return {
            "name": tool.name,
            "description": reading.with_examples(tool),
            "parameters": object_rooted(schema) if strict is None else strict,
            "strict": strict is not None,
        }


class OpenAIResponses(OpenAI):
    """The Responses API.

    Args:
        strict: Whether to ask for strict mode where a schema allows it.
    """

    name = "openai-responses"

    def schemas(self, tools: Prompt | Iterable[Tool[Any, Any]]) -> list[dict[str, Any]]:
        """Return the tools as `tools=` of the Responses API takes them."""
        return [{"type": "function", **self._function(tool)} for tool in reading.tools_of(tools)]

    def results(self, outcomes: Sequence[Outcome | BaseException]) -> list[dict[str, Any]]:
        """Return one `function_call_output` item for each outcome."""
        return [
            {
                "type": "function_call_output",
                "call_id": outcome.call_id,
                "output": outcome.whole_text,
            }
            for outcome in map(answer, outcomes)
        ]


def _streamed(reply: object) -> list[Any] | None:
    """Return the reply that a stream's events of either API add up to, None for anything else."""
    events = reading.items(reply)
    message = streams.chat_message(events)
    return streams.response_items(events) if message is None else [message]


def _refused_where_cut_off(calls: list[ToolCall], reply: object) -> list[ToolCall]:
    """Return the calls; the last of a completion that broke off before its arguments is refused."""
    choices = reading.items(reading.field(reply, "choices"))
    is_cut = choices and reading.field(choices[0], "finish_reason") in streams.CHAT_CUT_SHORT
    return reading.without_end(calls) if is_cut else calls


def _is_entry(entry: object) -> bool:
    """Tell a message or an item of a response from whatever else has a role or a type."""
    if reading.is_message(entry):
        return True
    type_ = reading.field(entry, "type")
    if type_ == "message":
        return isinstance(reading.field(entry, "content"), (list, tuple))
    return isinstance(type_, str) and _ITEM.fullmatch(type_) is not None


def _said(document: object) -> list[Any]:
    fields = [reading.field(document, name) for name in ("messages", "input")]
    return reading.items(document) or [item for field in fields for item in reading.items(field)]


def _replied(reply: object) -> list[Any]:
    if choices := reading.items(reading.field(reply, "choices")):
        return [reading.field(choices[0], "message")]
    return reading.items(reading.field(reply, "output"))


def _calls_in(entries: list[Any]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for entry in entries:
        if reading.field(entry, "type") == streams.FUNCTION_CALL:
            calls.append(_call(entry, reading.field(entry, "call_id", "id")))
        # A call may come alone, without its message.
        tool_calls = reading.items(reading.field(entry, "tool_calls"))
        tool_calls = [entry] if _is_call(entry) else tool_calls
        for call in tool_calls:
            function = reading.field(call, "function")
            if function is not None and not isinstance(function, (str, int, float, list)):
                calls.append(_call(function, reading.field(call, "id")))
        # A message from before `tool_calls` has one call, without an id. A part of Gemini's has the
        # same field, and no role.
        legacy = reading.field(entry, streams.FUNCTION_CALL)
        is_legacy = not tool_calls and reading.field(entry, "role") == "assistant"
        if is_legacy and isinstance(reading.field(legacy, "name"), str):
            calls.append(_call(legacy, None))
    return calls


def _is_call(entry: object) -> bool:
    """Tell a call, which may come without arguments, from a message and from a tool's schema."""
    function = reading.field(entry, "function")
    if reading.field(function, "arguments") is not None:
        return True
    is_function = reading.field(entry, "type") == "function"
    # A schema has the same type and name, and no id.
    has_id = reading.field(entry, "id") is not None
    return is_function and has_id and isinstance(reading.field(function, "name"), str)


def _call(function: Mapping[str, Any] | object, call_id: object) -> ToolCall:
    given = reading.field(function, "arguments")
    if not given and reading.field(function, "status") in ("incomplete", "in_progress"):
        given = CUT_OFF
    return reading.call(reading.field(function, "name"), given, call_id)

"""Anthropic: tool definitions, `tool_use` and `tool_result` blocks of the Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from toolstile_hookspecs import Outcome, Prompt, Tool, ToolCall
from toolstile_hookspecs.execution.schemas import examples_of, params_schema
from toolstile_plugins.dialects import parse as reading
from toolstile_plugins.dialects.json_schema import object_rooted
from toolstile_plugins.dialects.parse import Answer, answer
from toolstile_plugins.dialects.streams import CUT_SHORT, anthropic_blocks

TOOL_USE: Final = "tool_use"


class Anthropic:
    """The Messages API.

    `is_error` says that the host refused, rolled back or caught a call. A tool that answers
    "not found" has worked, and its answer is an ordinary one.

    Example:
        >>> Anthropic().calls({"role": "assistant", "content": [
        ...     {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
        ... ]})[0].arguments
        {'a': 1}
    """

    name = "anthropic"

    def schemas(self, tools: Prompt | Iterable[Tool[Any, Any]]) -> list[dict[str, Any]]:
        """Return the tools as `tools=` takes them; its field for examples has inputs alone."""
        return [_definition(tool) for tool in reading.tools_of(tools)]

    def calls(self, reply: Any) -> list[ToolCall]:
        """Return the calls in a message, in a list of content blocks or of a stream's events."""
        blocks = reading.listed(reply, "content")
        blocks = anthropic_blocks(blocks) or blocks
        return _calls_in(blocks, cut_off=reading.field(reply, "stop_reason") in CUT_SHORT)

    def results(self, outcomes: Sequence[Outcome | BaseException]) -> list[dict[str, Any]]:
        """Return one user message with a `tool_result` block for each outcome."""
        blocks = [_block(outcome) for outcome in map(answer, outcomes)]
        return [{"role": "user", "content": blocks}] if blocks else []

    def recorded(self, document: Any) -> list[ToolCall] | None:
        """Return the calls of recorded messages or blocks, None for anything else.

        Content that stands beside the messages is the reply to them.
        """
        if (blocks := anthropic_blocks(reading.items(document))) is not None:
            return _calls_in(blocks)
        said = reading.listed(document, "messages")
        calls = reading.joined(said, [document], _assistants)
        return reading.known(calls, said or [document], reading.is_message)


def _definition(tool: Tool[Any, Any]) -> dict[str, Any]:
    definition: dict[str, Any] = {
        "name": tool.name,
        "description": reading.with_examples(tool),
        "input_schema": object_rooted(params_schema(tool)),
    }
    if examples := [json.loads(given) for _, given, _ in examples_of(tool)]:
        definition["input_examples"] = examples
    return definition


def _assistants(entries: list[Any]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for entry in entries:
        calls += _calls_in([entry])
        if reading.field(entry, "role") in (None, "assistant"):
            cut_off = reading.field(entry, "stop_reason") in CUT_SHORT
            calls += _calls_in(reading.items(reading.field(entry, "content")), cut_off=cut_off)
    return calls


def _calls_in(blocks: list[Any], *, cut_off: bool = False) -> list[ToolCall]:
    """Return the calls of blocks; of a reply that was cut off, the last lacks its arguments."""
    return [
        reading.call(
            reading.field(block, "name"),
            reading.CUT_OFF if cut_off and block is blocks[-1] else reading.field(block, "input"),
            reading.field(block, "id"),
        )
        for block in blocks
        if reading.field(block, "type") == TOOL_USE
    ]


def _block(result: Answer) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "is_error": result.is_error,
    }
    if result.text:
        block["content"] = result.text
    if result.feedback:
        texts = filter(None, (result.text, result.feedback))
        block["content"] = [{"type": "text", "text": text} for text in texts]
    return block

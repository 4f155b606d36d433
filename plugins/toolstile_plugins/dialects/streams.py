"""Event streams of providers, saved or just received, joined into the calls they hold.

A call arrives in parts. One whose end did not arrive keeps the text that did, which is not JSON:
parsing refuses it, so it never runs without its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from toolstile_plugins.dialects import parse as reading
from toolstile_plugins.dialects.parse import CUT_OFF

FUNCTION_CALL: Final = "function_call"
CUT_SHORT: Final = ("max_tokens", "model_context_window_exceeded", "refusal")
"""Why a reply may end in the midst of a call."""

CHAT_CUT_SHORT: Final = ("length", "content_filter")
"""The same, of Chat Completions."""

ANTHROPIC_EVENTS: Final = frozenset({"message_start", "content_block_start", "content_block_delta"})
ARGUMENT_EVENTS: Final = "response.function_call_arguments."


@dataclass(slots=True)
class PartialCall:
    """A call of which parts have arrived.

    Args:
        name: The tool that was asked for.
        call_id: The provider's id of the call.
        given: The arguments that came whole, before any part.
        parts: The parts of its arguments.
        ended: Whether the end has arrived.
    """

    name: Any = None
    call_id: Any = None
    given: Any = None
    parts: list[str] = field(default_factory=list[str])
    ended: bool = False

    def add(self, part: object) -> None:
        """Add a part of the arguments, where there is one."""
        if isinstance(part, str):
            self.parts.append(part)

    @property
    def arguments(self) -> Any:
        """The arguments, as JSON text or as they were given."""
        return "".join(self.parts) or self.given or ("" if self.ended else CUT_OFF)


# --- The Messages API


def anthropic_blocks(events: list[Any]) -> list[dict[str, Any]] | None:
    """Return the `tool_use` blocks of a stream of the Messages API, None for anything else."""
    if not any(_type_of(event) in ANTHROPIC_EVENTS for event in events):
        return None
    calls: list[PartialCall] = []
    by_index: dict[Any, PartialCall] = {}
    for event in events:
        if _type_of(event) == "message_start":
            by_index = {}
        _add_anthropic(event, calls, by_index)
    return [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments}
        for call in calls
    ]


def _add_anthropic(
    event: object, calls: list[PartialCall], by_index: dict[Any, PartialCall]
) -> None:
    index, delta = _key(reading.field(event, "index")), reading.field(event, "delta")
    match _type_of(event):
        case "content_block_start":
            by_index.pop(index, None)
            block = reading.field(event, "content_block")
            if _type_of(block) == "tool_use":
                told = [reading.field(block, name) for name in ("name", "id", "input")]
                by_index[index] = PartialCall(*told)
                calls.append(by_index[index])
        case "content_block_delta" if index in by_index:
            by_index[index].add(reading.field(delta, "partial_json"))
        case "content_block_stop" if index in by_index:
            by_index[index].ended = True
        case "message_delta" if by_index and reading.field(delta, "stop_reason") in CUT_SHORT:
            # The end of the block has arrived all the same.
            list(by_index.values())[-1].ended = False
        case _:
            pass


# --- Chat Completions


def chat_message(chunks: list[Any]) -> dict[str, Any] | None:
    """Return the message of a stream of Chat Completions, None for anything else.

    Of several choices the first counts.
    """
    first = [
        (reading.field(chunk, "id"), choice)
        for chunk in chunks
        for choice in reading.items(reading.field(chunk, "choices"))
        if not reading.field(choice, "index")
    ]
    if not first or any(reading.field(choice, "delta") is None for _, choice in first):
        return None
    calls: list[tuple[object, object, PartialCall]] = []
    for stream, choice in first:
        delta = reading.field(choice, "delta")
        for part in reading.items(reading.field(delta, "tool_calls")):
            _add_chat(calls, stream, part)
        if (legacy := reading.field(delta, FUNCTION_CALL)) is not None:
            _add_chat(calls, stream, {"index": "legacy", "function": legacy})
        if (reason := reading.field(choice, "finish_reason")) is not None:
            ended = [call for owner, _, call in calls if owner == stream]
            for call in ended:
                call.ended = reason not in CHAT_CUT_SHORT or call is not ended[-1]
    return {"role": "assistant", "tool_calls": [_chat_call(call) for *_, call in calls]}


def _add_chat(
    calls: list[tuple[object, object, PartialCall]], stream: object, part: object
) -> None:
    index, call_id = reading.field(part, "index"), reading.field(part, "id")
    function = reading.field(part, "function")
    if function is None:
        return
    call = next((call for *key, call in reversed(calls) if key == [stream, index]), None)
    # Some servers give each call the same index, or none, and tell them apart by their ids.
    if call is None or (call_id and call.call_id and call_id != call.call_id):
        call = PartialCall()
        calls.append((stream, index, call))
    call.call_id = call.call_id or call_id
    call.name = call.name or reading.field(function, "name")
    arguments = reading.field(function, "arguments")
    call.given = call.given or reading.mapping(arguments)
    call.add(arguments)


def _chat_call(call: PartialCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


# --- The Responses API


def response_items(events: list[Any]) -> list[Any] | None:
    """Return the calls among the items of a stream of the Responses API, None for anything else."""
    if not any(_type_of(event).startswith("response.") for event in events):
        return None
    said: list[Any] = []
    items: dict[object, Any] = {}
    for event in events:
        output = reading.items(reading.field(reading.field(event, "response"), "output"))
        if output or _type_of(event) == "response.created":
            # The items of a whole response stand for the parts of it that arrived before.
            ids = [reading.field(item, "call_id") for item in output]
            said += [item for item in items.values() if reading.field(item, "call_id") not in ids]
            said += output
            items = {}
        else:
            _add_item(event, items)
    return [_item(entry) for entry in [*said, *items.values()]]


def _item(entry: object) -> object:
    if not isinstance(entry, PartialCall):
        return entry
    told = {"call_id": entry.call_id, "name": entry.name, "arguments": entry.arguments}
    return {"type": FUNCTION_CALL, **told}


def _add_item(event: object, items: dict[object, Any]) -> None:
    item, kind = reading.field(event, "item"), _type_of(event)
    index = _key(reading.field(event, "output_index", "item_id"))
    if index is None:
        index = _key(reading.field(item, "id", "call_id"))
    if kind == "response.output_item.done":
        items[index] = item
    elif kind == "response.output_item.added" and _type_of(item) == FUNCTION_CALL:
        told = [reading.field(item, name) for name in ("name", "call_id", "arguments")]
        items[index] = PartialCall(*told)
    elif kind.startswith(ARGUMENT_EVENTS) and kind.endswith((".delta", ".done")):
        call = items.setdefault(
            index, PartialCall(reading.field(event, "name"), reading.field(event, "call_id"))
        )
        if isinstance(call, PartialCall):
            whole = reading.field(event, "arguments")
            call.ended = whole is not None
            call.parts = [whole] if isinstance(whole, str) else call.parts
            call.add(reading.field(event, "delta"))


def _type_of(thing: object) -> str:
    found = reading.field(thing, "type")
    return found if isinstance(found, str) else ""


def _key(index: object) -> object:
    """Return an index or an id, which is a key of a table; None for anything else."""
    return index if isinstance(index, (int, str)) else None

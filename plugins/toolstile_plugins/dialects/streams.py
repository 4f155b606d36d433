"""Event streams of providers, saved or just received, joined into the calls they hold.

A call arrives in parts. One whose end did not arrive keeps the text that did, which is not JSON:
parsing refuses it, so it never runs without its arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
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


@dataclass(slots=True)
class PartialCall:
    """A call that has arrived in part."""

    name: Any = None
    call_id: Any = None
    given: Any = None  # the arguments that came whole, before any part
    parts: list[str] = field(default_factory=list[str])  # of its arguments
    ended: bool = False
    made_id: str = ""  # for a call that comes without an id

    def add(self, part: object) -> None:
        """Add a part of the arguments, if the event has one."""
        if part and isinstance(part, str):
            self.parts.append(part)

    @property
    def is_whole(self) -> bool:
        """True where the parts so far are an object."""
        # Parts are many, and to read them all at each takes long.
        if not "".join(self.parts[-2:]).rstrip().endswith("}"):
            return False
        with suppress(ValueError):
            return isinstance(json.loads("".join(self.parts)), dict)
        return False

    @property
    def arguments(self) -> Any:
        """The arguments, as JSON text or as they were given."""
        return "".join(self.parts) or self.given or ("" if self.ended else CUT_OFF)


# --- The Messages API


class AnthropicMessage:
    """A message of the Messages API whose events arrive."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}  # without its content
        self.blocks: list[dict[str, Any]] = []  # of a call, without the `input`
        self.calls: dict[int, PartialCall] = {}  # by the places of their blocks
        self._places: dict[Any, int] = {}

    def add(self, event: object) -> tuple[Mapping[str, Any], PartialCall | None]:
        """Take an event; return the text that it adds to a block, and the call that it is of."""
        index = _key(reading.field(event, "index"))
        match _type_of(event):
            case "message_start":
                self._places = {}
                self._note(reading.field(event, "message"))
            case "content_block_start":
                self._places[index] = len(self.blocks)
                return {}, self._begin(dict(reading.mapping(reading.field(event, "content_block"))))
            case "content_block_delta" if self._places:
                # Some servers number the parts otherwise than the blocks, or not at all.
                place = self._places.get(index, len(self.blocks) - 1)
                return self._join(place, reading.mapping(reading.field(event, "delta")))
            case "content_block_stop" if self._places:
                place = self._places.get(index, len(self.blocks) - 1)
                if place in self.calls:
                    self.calls[place].ended = True
            case "message_delta":
                self._note(reading.field(event, "delta"))
                self._note({"usage": reading.mapping(reading.field(event, "usage"))})
                made = [place for place in self._places.values() if place in self.calls]
                if made and self.message.get("stop_reason") in CUT_SHORT:
                    # The end of the block has arrived all the same.
                    self.calls[max(made)].ended = False
            case _:
                pass
        return {}, None

    def content(self) -> list[dict[str, Any]]:
        """Return the blocks; blocks of calls have their arguments as text."""
        inputs = {place: {"input": call.arguments} for place, call in self.calls.items()}
        return [block | inputs.get(place, {}) for place, block in enumerate(self.blocks)]

    def _note(self, told: object) -> None:
        known = dict(reading.mapping(told))
        usage: dict[str, Any] = {
            **self.message.get("usage", {}),
            **(known.pop("usage", None) or {}),
        }
        self.message |= known | {"usage": usage}

    def _begin(self, block: dict[str, Any]) -> PartialCall | None:
        self.blocks.append(block)
        if block.get("type") != "tool_use":
            return None
        call = PartialCall(block.get("name"), block.get("id"), block.get("input"))
        self.calls[len(self.blocks) - 1] = call
        return call

    def _join(
        self, place: int, delta: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], PartialCall | None]:
        block = self.blocks[place]
        for name in ("text", "thinking", "signature"):
            if delta.get(name):
                block[name] = (block.get(name) or "") + delta[name]
        if "citation" in delta:
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        call = self.calls.get(place)
        if call is not None:
            call.add(delta.get("partial_json"))
        return delta, call


def anthropic_blocks(events: list[Any]) -> list[dict[str, Any]] | None:
    """Return the `tool_use` blocks of a stream of the Messages API, None for anything else."""
    if not any(_type_of(event) in ANTHROPIC_EVENTS for event in events):
        return None
    message = AnthropicMessage()
    for event in events:
        message.add(event)
    return [block for block in message.content() if block.get("type") == "tool_use"]


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
    calls = ChatCalls()
    for stream, choice in first:
        delta = reading.field(choice, "delta")
        for part in reading.items(reading.field(delta, "tool_calls")):
            calls.add(part, stream)
        if (legacy := reading.field(delta, FUNCTION_CALL)) is not None:
            calls.add({"index": "legacy", "function": legacy}, stream)
        if (reason := reading.field(choice, "finish_reason")) is not None:
            ended = [call for owner, _, call in calls.known if owner == stream]
            for call in ended:
                call.ended = reason not in CHAT_CUT_SHORT or call is not ended[-1]
    made = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for *_, call in calls.known
    ]
    return {"role": "assistant", "tool_calls": made}


class ChatCalls:
    """The calls of streams of Chat Completions, however their servers number them.

    Some give each call the same index or none, repeat ids and names in every part, or give ids
    twice or not at all. `known` has the calls so far, each with its stream and its index there.
    """

    def __init__(self) -> None:
        self.known: list[tuple[object, object, PartialCall]] = []

    def add(self, part: object, stream: object = None) -> PartialCall | None:
        """Add a part; return its call, None for a part of anything else."""
        function = reading.field(part, "function")
        if function is None:
            return None
        index, call_id = reading.field(part, "index"), reading.field(part, "id") or None
        name, given = (reading.field(function, each) for each in ("name", "arguments"))
        call = self._found(stream, index, call_id, is_named=bool(name))
        if call is None or self._is_another(call, name, given, call_id):
            # A server without ids may give the name before the last call is known to be whole.
            name = name or (call and call.name)
            call = PartialCall()
            self.known.append((stream, index, call))
        call.call_id = call.call_id or call_id
        call.name = call.name or name
        call.given = call.given or reading.mapping(given)
        call.add(given)
        return call

    def _is_another(self, call: PartialCall, name: object, given: object, call_id: object) -> bool:
        if name and call.name and name != call.name:
            return True
        text = given.strip() if isinstance(given, str) else given
        is_foreign = call_id is not None and call.call_id not in {None, "", call_id}
        goes_on = not (name or is_foreign) and (call_id or call.call_id)
        return bool((text or is_foreign) and not goes_on and call.is_whole)

    def _found(
        self, stream: object, index: object, call_id: object, *, is_named: bool
    ) -> PartialCall | None:
        here = [(at, call) for owner, at, call in reversed(self.known) if owner == stream]
        at_index = [call for at, call in here if index is None or at == index]
        if is_named:
            known = {None, "", call_id}
            return next((each for each in at_index if not call_id or each.call_id in known), None)
        # A part without a name begins no call, whatever its id and its index.
        of_id = [call for _, call in here if call_id and call.call_id == call_id]
        return next(iter([*of_id, *at_index, *(call for _, call in here)]), None)


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
            continue
        item, kind = reading.field(event, "item"), _type_of(event)
        index = _key(reading.field(event, "output_index", "item_id"))
        if index is None:
            index = _key(reading.field(item, "id", "call_id"))
        if kind == "response.output_item.done":
            items[index] = item
        elif kind == "response.output_item.added" and _type_of(item) == FUNCTION_CALL:
            told = [reading.field(item, name) for name in ("name", "call_id", "arguments")]
            items[index] = PartialCall(*told)
        elif re.fullmatch(r"response\.function_call_arguments\.(delta|done)", kind):
            call = PartialCall(reading.field(event, "name"), reading.field(event, "call_id"))
            call = items.setdefault(index, call)
            if isinstance(call, PartialCall):
                whole = reading.field(event, "arguments")
                call.ended = whole is not None
                call.parts = [whole] if isinstance(whole, str) else call.parts
                call.add(reading.field(event, "delta"))
    return [_item(entry) for entry in [*said, *items.values()]]


def _item(entry: object) -> object:
    if not isinstance(entry, PartialCall):
        return entry
    told = {"call_id": entry.call_id, "name": entry.name, "arguments": entry.arguments}
    return {"type": FUNCTION_CALL, **told}


def _type_of(thing: object) -> str:
    found = reading.field(thing, "type")
    return found if isinstance(found, str) else ""


def _key(index: object) -> object:
    """Return an index or an id, which is a key of a table; None for anything else."""
    return index if isinstance(index, (int, str)) else None

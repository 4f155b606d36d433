"""Calls in documents of others: session logs of assistants, messages of other frameworks.

A recorded conversation has turns: the words of the user, and the calls that follow them.

A call is read where its name and its arguments stand together. Anything else that looks like a
call is refused by name, so that no part of a conversation runs in place of the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from toolstile_hookspecs import Dialect, ToolCall

JsonObject = dict[str, Any]

CALL: Final = re.compile(r"(tool|function)(call|use|request|invocation)|(shell|patch|computer)call")
CALL_KEY: Final = re.compile(
    r"(invalid)?(tool|function)(execution)?(call|use|request|invocation)s?(chunks)?"
)
NOT_ASKED: Final = re.compile(r"server|mcp|builtin|eventmsg")
"""Calls that the provider makes by itself, and a log's notes on calls."""

RESULT: Final = re.compile(
    r"(?<!submit)(tool|function|call).*(result|output|return|response|error|execution)"
)
NOT_SAID: Final = re.compile(r"tools|.*(schema|result)|.*(tool|function|call).*response")
"""Keys of texts that are not the model's: definitions of tools, and their answers."""

OTHERS: Final = ("user", "human", "system", "developer")
"""Roles of messages that are not the model's."""

CONTAINERS: Final = ("content", "data", "value")
"""Keys below which a marked call may hold its name and arguments."""

EVENT: Final = re.compile(r"(message|content_block)_(start|delta|stop)|response\..*|.*[._]delta")
NAMES: Final = ("name", "tool_name", "toolName", "function")
ARGUMENTS: Final = ("arguments", "args", "input", "parameters", "tool_kwargs")
ID_KEY: Final = re.compile(r"(tool)?(call|use)id")
INPUT: Final = frozenset({*ARGUMENTS, "state"})
IDS: Final = (
    *("tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "tool_id"),
    *("call_id", "callId", "id"),
)
PARTIAL: Final = ("partial", "partial-call", "input-streaming", "in_progress", "incomplete")
ENDED: Final = re.compile(r"(stop|finish|done)reason")
CUT_SHORT: Final = ("length", "max_tokens", "MAX_TOKENS", "content_filter", "content-filter")
CUT_OFF: Final = "{"
"""The arguments of a call that broke off before any arrived: not JSON, so that parsing refuses."""


class UnreadCallError(ValueError):
    """Something looks like a call, and cannot be read whole; the text names it."""


def calls_within(document: object, dialects: Sequence[Dialect]) -> list[ToolCall]:
    """Return the calls that stand anywhere in a JSON document, each once.

    Raises `UnreadCallError` for an object that looks like a call, and cannot be read as one.
    """
    walk = _Walk(dialects)
    walk.visit(walk.without_streams(document))
    return list(walk.calls.values())


class _Walk:
    """A walk through a document, in its order; `calls` are those read, by a distinguishing key."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = dialects
        self._read = 0
        self._is_cut_off = False
        self.calls: dict[tuple[str, str, str], ToolCall] = {}

    def without_streams(self, document: object) -> object:
        """Return the entries of a log but for the events of streams, whose calls are read."""
        entries = _objects(_items(document))
        for key in dict.fromkeys(key for entry in entries for key in entry):
            events = _objects(entry.get(key) for entry in entries)
            if any(map(_is_event, events)) and self._has_known(events):
                entries = [entry for entry in entries if not _is_event(entry.get(key))]
                document = entries
        return document

    def visit(self, node: object, *, is_call: bool = False) -> None:
        """Read the calls in a part of the document, which may be where calls are expected."""
        for item in _items(node):
            self.visit(item, is_call=is_call)
        if isinstance(node, dict):
            self._visit_object(cast("JsonObject", node), is_call=is_call)

    def _visit_object(self, node: JsonObject, *, is_call: bool) -> None:
        if not _is_said(node):
            return
        was_cut_off = self._is_cut_off
        self._is_cut_off = was_cut_off or _breaks_off(node)
        if _is_event(node):
            # A call that a stream delivers in parts cannot be read from one of its events.
            told = json.dumps(node)
            if CALL.search(_plain(told)) or "partial_json" in told:
                raise UnreadCallError("a part of a stream's call, without the others")
        elif not self._has_known(node):
            mark = _call_mark(node)
            if not ((is_call or mark) and self._has_added(node)):
                self._visit_values(node, mark, is_call=is_call or mark is not None)
        self._is_cut_off = was_cut_off

    def _visit_values(self, node: JsonObject, mark: str | None, *, is_call: bool) -> None:
        before = self._read
        for key, value in _said(node):
            if CALL_KEY.fullmatch(_plain(key)) and _holds_objects(value):
                self._visit_calls(key, value)
            else:
                self.visit(value, is_call=is_call and key in CONTAINERS)
        if mark is not None and self._read == before:
            raise UnreadCallError(repr(mark))

    def _visit_calls(self, key: str, value: object) -> None:
        for item in _items(value) or [value]:
            before = self._read
            if not key.endswith("chunks"):
                self.visit(item, is_call=True)
            if self._read == before and all(map(_is_said, _objects([item]))):
                raise UnreadCallError(repr(key))

    def _has_known(self, node: object) -> bool:
        """Tell whether a dialect knows all calls in a part, which are added."""
        dialect = dialect_of(node, self._dialects)
        if dialect is None:
            return False
        for call in dialect.recorded(node) or ():
            self._add(call)
        return True

    def _has_added(self, node: JsonObject) -> bool:
        """Tell whether a part is a call as a whole, which is added."""
        name = next((node[key] for key in NAMES if isinstance(node.get(key), str)), None)
        given: Any = next((node[key] for key in ARGUMENTS if key in node), ...)
        states = [node.get("state"), node.get("status")]
        is_partial = any(state in PARTIAL for state in states) or (
            node.get("is_input_complete") is False
        )
        if not name or given is ... or is_partial:
            return False
        told = next((node[key] for key in IDS if isinstance(node.get(key), str)), None)
        arguments = cast(
            "Any", given if isinstance(given, (str, dict)) else json.dumps(given or {})
        )
        self._add(ToolCall(name, arguments or "{}", provider_id=told or ""))
        return True

    def _add(self, call: ToolCall) -> None:
        self._read += 1
        if self._is_cut_off and _canonical(call.arguments) == "{}":
            call = replace(call, arguments=CUT_OFF)
        self.calls.setdefault((call.wire_id, call.name, _canonical(call.arguments)), call)


def dialect_of(node: object, dialects: Iterable[Dialect]) -> Dialect | None:
    """Return the dialect that knows all calls of a part, or None."""
    for dialect in dialects:
        calls = dialect.recorded(node)
        if calls and not any(_is_unread(like, calls) for like in _call_like(node)):
            return dialect
    return None


def _call_like(node: object, *, is_call: bool = False) -> Iterator[JsonObject]:
    """Yield the objects that look like calls, but for those in events of a stream."""
    for item in _items(node):
        yield from _call_like(item, is_call=is_call)
    if not isinstance(node, dict):
        return
    entry = cast("JsonObject", node)
    if not _is_said(entry) or _is_event(entry):
        return
    if is_call or _call_mark(entry) is not None:
        yield entry
        return
    for key, value in _said(entry):
        of_calls = CALL_KEY.fullmatch(_plain(key)) is not None
        # Of several choices the first counts.
        first = _items(value)[:1] if key in ("choices", "candidates") else value
        yield from _call_like(first, is_call=of_calls)
        if of_calls and _is_text_of_objects(value):
            yield {}


def _is_unread(like: JsonObject, calls: list[ToolCall]) -> bool:
    """Return whether an object looks like a call that was not read."""
    ids = [str(like[key]) for key in IDS if isinstance(like.get(key), (str, int))]
    if ids:
        return not any(call.provider_id in ids for call in calls)
    name = next((like[key] for key in NAMES if key in like), None)
    name = cast("JsonObject", name).get("name") if isinstance(name, dict) else name
    # Gemini's names may begin with an underscore that stands for nothing.
    return not any(name in (call.name, f"_{call.name}") for call in calls)


def _is_said(node: JsonObject) -> bool:
    """Find the model's texts and calls among the rest of a conversation."""
    marks = [_plain(mark) for mark in _marks(node)]
    return node.get("role") not in OTHERS and not any(
        RESULT.search(mark) or NOT_ASKED.match(mark) for mark in marks
    )


def _said(node: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield the entries of an object that may hold the model's texts."""
    for key, value in node.items():
        # The results of a batch of requests are replies of the model.
        if not NOT_SAID.fullmatch(_plain(key)) or (key == "result" and "custom_id" in node):
            yield key, value


def _breaks_off(node: JsonObject) -> bool:
    """Tell a reply that the model did not end."""
    return any(
        ENDED.fullmatch(_plain(key)) and value in CUT_SHORT
        for entry in (node, *_objects([node.get("response_metadata")]))
        for key, value in entry.items()
    )


def _is_event(node: object) -> bool:
    """Return whether an object is an event of a stream, which holds a part of a text."""
    if not isinstance(node, dict):
        return False
    event = cast("JsonObject", node)
    parts = [event, *_objects(_items(event.get("choices")))]
    return any("delta" in part for part in parts) or (
        isinstance(event.get("type"), str) and EVENT.fullmatch(event["type"]) is not None
    )


def _marks(node: JsonObject) -> Iterator[str]:
    """Yield the words for an object's type."""
    for key, value in node.items():
        if isinstance(value, str) and (_plain(key).endswith(("type", "kind")) or key == "role"):
            yield "toolresult" if (key, value) == ("role", "tool") else value


def _call_mark(node: JsonObject) -> str | None:
    """Return the word that marks an object as a call: its type, or a key of an id beside input."""
    types = (mark for mark in _marks(node) if CALL.search(_plain(mark)))
    keys = (key for key in node if ID_KEY.fullmatch(_plain(key)) and INPUT & node.keys())
    return next(types, None) or next(keys, None)


def _holds_objects(value: object) -> bool:
    has_any = any(isinstance(item, dict) for item in _items(value))
    return has_any or isinstance(value, dict) or _is_text_of_objects(value)


def _is_text_of_objects(value: object) -> bool:
    """Tell JSON text, as databases hold it."""
    return isinstance(value, str) and re.match(r"\s*(\[\s*)?\{", value) is not None


def _items(value: object) -> list[Any]:
    return [*cast("Iterable[Any]", value)] if isinstance(value, list) else []


def _objects(values: Iterable[object]) -> list[JsonObject]:
    return [cast("JsonObject", value) for value in values if isinstance(value, dict)]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _canonical(arguments: object) -> str:
    """Return arguments as one text, however they were written."""
    try:
        value = json.loads(arguments) if isinstance(arguments, (str, bytes)) else arguments
        return json.dumps(value, sort_keys=True)
    except ValueError:
        return str(arguments)


# --- The turns of the user


LISTS: Final = ("messages", "input", "contents")
"""The keys of the messages in a document; an `input` may be a text of the user as well."""
TEXTS: Final = (None, "text", "input_text")
"""The types of the parts of a message with the user's text."""


class UserTurn(NamedTuple):
    """A part of a conversation, the user's texts and the calls after them, or calls in none."""

    said: tuple[str, ...]
    calls: Sequence[ToolCall]


def turns_of(document: object, dialects: Sequence[Dialect]) -> list[UserTurn]:
    """Return the turns of a document; for other forms, a single turn without texts.

    Raises `UnreadCallError` for an object that looks like a call, and cannot be read as one.
    """
    dialect = dialect_of(document, dialects)
    if dialect is None:
        return [UserTurn((), calls_within(document, dialects))]
    calls = dialect.recorded(document) or []
    turns = [UserTurn(said, dialect.recorded(part) or []) for said, part in _parts_of(document)]
    # If the parts lack calls of the whole, the request of each call is unknown.
    is_whole = sum(len(turn.calls) for turn in turns) == len(calls)
    return turns if is_whole else [UserTurn((), calls)]


def _parts_of(document: object) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the parts of a document, each with the text of the user that it begins with."""
    fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    key = next((key for key in LISTS if fields.get(key)), None)
    entries = cast("object", document if key is None else fields[key])
    if isinstance(entries, str):
        yield (entries,), document
        return
    said: tuple[str, ...] = ()
    part: list[Any] = []
    for entry in _items(entries):
        text = _said_in(entry)
        if text:
            if part:
                yield said, part if key is None else {key: part}
            said, part = (text,), []
        part.append(entry)
    # The text beside the messages is the reply to them.
    yield said, part or document if key is None else {**fields, key: part}


def _said_in(entry: object) -> str:
    """Return the text of a message of the user, an empty one for anything else."""
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    if fields.get("role") != "user":
        return ""
    content = fields.get("content") or fields.get("parts")
    if isinstance(content, str):
        return content.strip()
    return "\n".join(_texts_of(content)).strip()


def _texts_of(content: object) -> Iterator[str]:
    """Yield the texts among parts, but for results of tools, which stand among them."""
    for part in _items(content):
        fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {"text": part}
        if fields.get("type") in TEXTS and isinstance(fields.get("text"), str):
            yield fields["text"]

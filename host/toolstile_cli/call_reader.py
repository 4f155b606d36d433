"""Calls to make, read from JSON Lines or from a recorded conversation."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, cast

from toolstile_cli.errors import UsageError
from toolstile_cli.transcripts import UnreadCallError, UserTurn, turns_of
from toolstile_hookspecs import Dialect, ToolCall
from toolstile_hookspecs.codecs import as_sentence
from toolstile_hookspecs.support.text import counted, suggest

KEYS: Final = ("id", "name", "arguments")
MAX_FAULTS: Final = 10
STDIN: Final = "-"
PAIR: Final = re.compile(r"[\w.-]+=")
EVENT_STREAM: Final = re.compile(r"\s*(data|event|id|retry|)\s*:")
"""The first line of server-sent events, as they were saved."""

JsonObject = dict[str, Any]


_JSON_TYPES: Final[Mapping[type[Any], frozenset[str]]] = {
    str: frozenset({"string"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"integer", "number"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    type(None): frozenset({"null"}),
}
"""By the type of a value, the JSON types that take it; 3.0 is an integer, too."""


class Line(NamedTuple):
    """A line that is not empty, and its number."""

    number: int
    text: str


class LineError(ValueError):
    """The fault of one line."""


class BrokenLineError(LineError):
    """The fault of a line that is not JSON at all."""


def read_source(path: str) -> tuple[str, str]:
    """Return name and text of a file, `-` for standard input; `UsageError` if it is unreadable."""
    if path == STDIN:
        return "standard input", _decode(sys.stdin.buffer.read(), "standard input")
    try:
        return path, _decode(Path(path).read_bytes(), path)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}. Give a file, or - for stdin."
        raise UsageError(msg) from None


def read_turns(
    text: str, source: str, dialects: Callable[[], Mapping[str, Dialect]]
) -> list[UserTurn]:
    """Return the calls of a text; of a conversation, each after the user's request.

    The text has JSON Lines of `{"id", "name", "arguments"}`, or a recorded conversation that a
    dialect knows: one JSON document, or one message a line. `UsageError`, with the number of each
    faulty line: nothing should be run.
    """
    lines = [Line(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise UsageError(f"{source} holds no calls; give one JSON object a line.")
    if EVENT_STREAM.match(lines[0].text):
        turns = _recorded(_events(lines, source), source, dialects())
        if turns is None:
            raise _not_a_conversation(source, dialects())
        return turns
    document = _document(text, lines, source)
    is_one = document is not None
    if is_one:
        lines = [Line(lines[0].number, text)]
    values = [document] if is_one else [_value_or_none(line) for line in lines]
    first = values[0]
    is_call = isinstance(first, dict) and "name" in first and not first.keys() - set(KEYS)
    if not is_call and None not in values:
        turns = _recorded(document if is_one else values, source, dialects())
        if turns is not None:
            return turns
        # Lines that are not objects, and calls with a misspelt key, are reported line by line.
        is_listed = len(values) > 1
        if all(isinstance(value, dict) for value in values):
            is_listed = any(key in KEYS or suggest(key, KEYS) for key in cast("Any", first))
        if not is_listed:
            raise _not_a_conversation(source, dialects())
    return [UserTurn((), _calls(lines, source))]


def _not_a_conversation(source: str, dialects: Iterable[str]) -> UsageError:
    names = ", ".join(sorted(dialects)) or "none is loaded"
    return UsageError(
        f"{source} is JSON, but not a conversation that a dialect knows ({names}). {_GIVE}"
    )


def _events(lines: list[Line], source: str) -> list[Any]:
    """Return the data of server-sent events; `UsageError` for JSON that has broken off."""
    events: list[Any] = []
    for line in lines:
        name, _, data = line.text.strip().partition(":")
        if name == "data" and data.strip() != "[DONE]":
            try:
                events.append(_decode_json(data))
            except LineError as error:
                raise UsageError(
                    f"{source}, line {line.number}: {as_sentence(str(error))}"
                ) from None
    return events


def _recorded(
    document: object, source: str, dialects: Mapping[str, Dialect]
) -> list[UserTurn] | None:
    """Return the turns of a conversation, None for anything else; `UsageError` if one is faulty."""
    readers = list(dialects.values())
    try:
        turns = turns_of(document, readers)
        is_known = any(turn.calls for turn in turns) or any(
            dialect.recorded(document) is not None for dialect in readers
        )
    except UnreadCallError as error:
        msg = f"{source} holds calls in a form that no dialect reads: {error}. {_GIVE}"
    except RecursionError:
        msg = f"{source} is nested too deeply. {_GIVE}"
    else:
        return turns if is_known else None
    raise UsageError(msg)


def read_arguments(text: str, *, quoted: bool = True) -> str:
    """Return the arguments of a call, or raise `UsageError` unless they are a JSON object.

    A shell may have taken the quotes of `quoted` ones away.
    """
    try:
        value = _decode_json(text)
    except LineError as error:
        wanted = (
            "Quote them for the shell: '{\"a\": 1}', or write a=1"
            if quoted
            else 'Give a JSON object: {"a": 1}'
        )
        hint = f" {wanted}." if isinstance(error, BrokenLineError) else ""
        raise UsageError(f"the arguments cannot be read: {error}.{hint}") from None
    if not isinstance(value, dict):
        raise UsageError(f"the arguments are {_kind(value)}; give a JSON object.")
    return text


def read_pairs(words: Sequence[str]) -> dict[str, str]:
    """Return arguments given as `key=value`, values as typed; `UsageError` for a repeated key."""
    others = [word for word in words if not PAIR.match(word)]
    if 0 < len(others) < len(words) and not words[0].startswith("{"):
        raise UsageError(
            f"{others[0]!r} is not KEY=VALUE. Quote a value with spaces: text='two words'."
        )
    pairs: dict[str, str] = {}
    for word in () if others else words:
        key, _, value = word.partition("=")
        if key in pairs:
            raise UsageError(f"the argument {key!r} is given twice; give it once.")
        pairs[key] = value
    return pairs


def typed_by(schema: Mapping[str, Any], pairs: Mapping[str, str]) -> JsonObject:
    """Return typed values: as JSON if the schema of the params takes that, else as texts.

    Example:
        >>> string, several = {"type": "string"}, {"type": "array"}
        >>> typed_by({"properties": {"a": string, "b": several}}, {"a": "5", "b": "[1, 2]"})
        {'a': '5', 'b': [1, 2]}
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    return {
        key: _typed(text, _types_in(properties.get(key, {}), schema)) for key, text in pairs.items()
    }


def _typed(text: str, types: set[str]) -> Any:
    if types == {"string"}:
        return text
    try:
        value = _decode_json(text)
    except LineError:
        return text
    return text if types and types.isdisjoint(_JSON_TYPES[type(value)]) else value


def _types_in(schema: Any, root: Mapping[str, Any]) -> set[str]:
    """Return the JSON types that a schema takes; none if it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    found = cast("JsonObject", schema)
    if str(found.get("$ref", "")).startswith("#/$defs/"):
        return _types_in(root.get("$defs", {}).get(found["$ref"][len("#/$defs/") :]), root)
    named = found.get("type", [])
    types = {named} if isinstance(named, str) else {*named}
    for value in (*found.get("enum", ()), *([found["const"]] if "const" in found else ())):
        types |= _JSON_TYPES[type(value)]
    for kind in ("anyOf", "oneOf", "allOf"):
        for each in found.get(kind, ()):
            types |= _types_in(each, root)
    return types


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        msg = f"{source}, line {number}: not UTF-8 ({error.reason}). Save it as UTF-8."
        raise UsageError(msg) from None


def _document(text: str, lines: list[Line], source: str) -> Any:
    """Return the text as one JSON document, or None if it is one value a line.

    The first two lines distinguish a broken document from broken lines: of JSON Lines, at
    least one is a value by itself.
    """
    try:
        return _STRICT.decode(text.rstrip())
    except RecursionError:
        return None
    except ValueError as error:
        if any(_stands_alone(line) for line in lines[:2]):
            return None
        if not isinstance(error, json.JSONDecodeError):
            raise UsageError(f"{source}: {_told(error)}.") from None
        told = f"{source}, line {error.lineno}: not JSON ({_reason(error)}). Give calls as JSON, "
        told += '{"id", "name", "arguments"}, one a line, or a recorded conversation'
        if source.endswith(".py"):
            told += f"; to load a plugin from this file, write --plugin {shlex.quote(source)}"
        raise UsageError(f"{told}.") from None


def _calls(lines: list[Line], source: str) -> list[ToolCall]:
    calls: list[ToolCall] = []
    seen: dict[str, int] = {}
    faults: list[str] = []
    for line in lines:
        try:
            calls.append(_call(line, seen))
        except LineError as error:
            faults.append(f"{source}, line {line.number}: {as_sentence(str(error))}")
    if faults:
        more = len(faults) - MAX_FAULTS
        hint = [f"and {counted(more, 'more faulty line')}."] if more > 0 else []
        raise UsageError(*faults[:MAX_FAULTS], *hint)
    return calls


def _call(line: Line, seen: dict[str, int]) -> ToolCall:
    value = _decode_json(line.text)
    if not isinstance(value, dict):
        raise LineError(f'{_kind(value)}, not a call; write {{"id", "name", "arguments"}}')
    entry = cast("JsonObject", value)
    for key in entry:
        if key not in KEYS:
            near = suggest(key, KEYS)
            raise LineError(f"unknown key {key!r}{f'{near} There' if near else '; there'} {_KNOWN}")
    told = _id(entry, line, seen)
    if "id" in entry:
        return ToolCall(_name(entry), _arguments(entry), id=told)
    # The number of a line names a call of this file alone.
    return ToolCall(_name(entry), _arguments(entry), provider_id=told)


def _name(entry: JsonObject) -> str:
    if "name" not in entry:
        raise LineError("the name of the tool is missing; add a key 'name'")
    name = entry["name"]
    if not isinstance(name, str) or not name:
        raise LineError(f"the name is {_kind(name)}; give the name of a tool")
    return name


def _arguments(entry: JsonObject) -> str | Mapping[str, Any]:
    arguments = entry.get("arguments", "{}")
    if not isinstance(arguments, (str, dict)):
        raise LineError(f"the arguments are {_kind(arguments)}; give an object or a JSON string")
    return cast("str | JsonObject", arguments)


def _id(entry: JsonObject, line: Line, seen: dict[str, int]) -> str:
    given = entry.get("id", f"line-{line.number}")
    if not isinstance(given, str) or not given:
        raise LineError(f"the id is {_kind(given)}; give a string, or leave it out")
    if given in seen:
        raise LineError(f"the id {given!r} is that of line {seen[given]}; give each call its own")
    seen[given] = line.number
    return given


def _stands_alone(line: Line) -> bool:
    """Return whether a line is a value by itself, even one that is refused later."""
    try:
        json.loads(line.text)
    except json.JSONDecodeError:
        return False
    except (RecursionError, ValueError):  # such as a number of too many digits
        return True
    return True


def _value_or_none(line: Line) -> Any:
    try:
        return _decode_json(line.text)
    except LineError:
        return None


def _decode_json(text: str) -> Any:
    try:
        return _STRICT.decode(text.strip())
    except json.JSONDecodeError as error:
        raise BrokenLineError(f"not JSON ({_reason(error)})") from None
    except RecursionError:
        raise LineError("nested too deeply") from None
    except ValueError as error:
        raise LineError(_told(error)) from None


def _told(error: ValueError) -> str:
    """Return the fault of JSON that is refused, or that Python does not read."""
    return str(error) if isinstance(error, LineError) else "not JSON (a number of too many digits)"


def _reason(error: json.JSONDecodeError) -> str:
    reason = error.msg.removesuffix(" at")
    return f"{reason[:1].lower()}{reason[1:]} at column {error.colno}"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if value == "":
        return "empty"
    types = ((str, "a string"), (bool, "a boolean"), (int | float, "a number"), (list, "an array"))
    return next((name for type_, name in types if isinstance(value, type_)), "an object")


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LineError(f"the key {twice!r} is given twice; give it once")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise LineError(f"{name} is not JSON; give a finite number")


_GIVE: Final = 'Give one call a line, {"id", "name", "arguments"}, then retry.'
_KNOWN: Final = f"are {', '.join(map(repr, KEYS[:-1]))} and {KEYS[-1]!r}"
_STRICT: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)

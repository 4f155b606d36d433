"""Gemini: function declarations, `functionCall` and `functionResponse` parts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from toolstile_hookspecs import Outcome, Prompt, Tool, ToolCall
from toolstile_plugins.dialects import parse as reading
from toolstile_plugins.dialects.json_schema import (
    Schema,
    inline,
    json_type,
    object_rooted,
    without_keys,
)
from toolstile_plugins.dialects.parse import Answer, answer

# --- Schemas for Gemini


_KEPT: Final = {
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_FORMATS: Final = {
    "string": frozenset({"date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
_SCALARS: Final = ("string", "number", "boolean")


def parameters(schema: Schema) -> Schema | None:
    """Return the schema of a function's parameters, or None for a function without any."""
    converted = _converted(inline(object_rooted(schema)))
    return converted if converted.get("properties") else None


def _converted(given: object) -> Schema:
    schema = _merged(cast("Schema", given)) if isinstance(given, dict) else {}
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return _literal(schema, values)
    variants = schema.get("anyOf", schema.get("oneOf"))
    if variants is not None:
        return _union([_converted(variant) for variant in variants], schema.get("description", ""))
    types = schema.get("type")
    if isinstance(types, str):
        return _typed(schema, types)
    if not types:
        types = _guessed(schema)
    plain = without_keys(schema, frozenset({"description"}))
    return _union([_typed(plain, type_) for type_ in types], schema.get("description", ""))


def _merged(schema: Schema) -> Schema:
    """Return the schema with the parts of its `allOf` joined into it, as far as they can be."""
    parts = schema.get("allOf")
    if not isinstance(parts, list):
        return schema
    merged: Schema = without_keys(schema, frozenset({"allOf"}))
    for part in cast("list[object]", parts):
        if not isinstance(part, dict):
            continue
        inner = _merged(cast("Schema", part))
        properties = {**inner.get("properties", {}), **merged.get("properties", {})}
        required = [*merged.get("required", ()), *inner.get("required", ())]
        merged = {**inner, **merged}
        if properties:
            merged["properties"] = properties
        if required:
            merged["required"] = list(dict.fromkeys(required))
    return merged


def _guessed(schema: Schema) -> list[str]:
    if "properties" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    return [*_SCALARS, "object", "array", "null"]


def _typed(schema: Schema, type_: str) -> Schema:
    converted: Schema = {"type": type_}
    notes: list[str] = [schema.get("description", "")]
    for key in _KEPT.get(type_, ()):
        if key in schema:
            converted[key] = schema[key]
    if type_ in {"number", "integer"}:
        converted.update(_bounds(schema, whole=type_ == "integer"))
    if (name := schema.get("format")) in _FORMATS.get(type_, ()):
        converted["format"] = name
    elif isinstance(name, str):
        notes.append(f"Format: {name}.")
    if type_ == "array":
        converted["items"] = _items(schema)
    if type_ == "object":
        converted.update(_object(schema))
        notes.append(_free_keys(schema))
    return _noted(converted, notes)


def _bounds(schema: Schema, *, whole: bool) -> Schema:
    bounds: Schema = {}
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if isinstance(low, (int, float)) and "minimum" not in schema:
        bounds["minimum"] = math.floor(low) + 1 if whole else low
    if isinstance(high, (int, float)) and "maximum" not in schema:
        bounds["maximum"] = math.ceil(high) - 1 if whole else high
    return bounds


def _items(schema: Schema) -> Schema:
    places = [*schema.get("prefixItems", ())]
    rest = schema.get("items")
    if isinstance(rest, list):
        places, rest = [*cast("list[object]", rest)], schema.get("additionalItems")
    if isinstance(rest, dict) or (rest is not False and not places):
        places.append(cast("object", rest))
    elif rest is None and len(places) != schema.get("maxItems"):
        places.append({})
    # Items of any kind: those of arrays within are not described further.
    return _union([_any_item() if not item else _converted(item) for item in places], "")


def _any_item() -> Schema:
    types = [{"type": type_} for type_ in (*_SCALARS, "object")]
    return _union([*types, {"type": "array", "items": {"type": "string"}}, {"type": "null"}], "")


def _object(schema: Schema) -> Schema:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return {}
    named = cast("dict[str, object]", properties)
    converted: Schema = {
        "properties": {name: _converted(property_) for name, property_ in named.items()}
    }
    if required := [name for name in schema.get("required", ()) if name in named]:
        converted["required"] = required
    return converted


def _free_keys(schema: Schema) -> str:
    extra = schema.get("additionalProperties")
    if not isinstance(extra, dict):
        return ""
    type_ = cast("Schema", extra).get("type")
    of = f" of type {type_}" if isinstance(type_, str) else ""
    return f"Its keys are free, its values{of or ' of one kind'}."


def _literal(schema: Schema, values: list[Any]) -> Schema:
    """Return an enumeration: of texts as `enum`, of anything else by type and in words."""
    nullable = None in values
    present = [value for value in values if value is not None]
    notes = [schema.get("description", "")]
    if not present:
        return _noted({"type": "null"}, notes)
    if all(isinstance(value, str) and value for value in present):
        converted: Schema = {"type": "string", "format": "enum", "enum": present}
        return _nullable(_noted(converted, notes)) if nullable else _noted(converted, notes)
    shown = ", ".join(json.dumps(value, ensure_ascii=False) for value in present)
    notes.append(f"One of: {shown}." if len(present) > 1 else f"Always {shown}.")
    types = list(dict.fromkeys(map(json_type, present)))
    union = [_typed({}, type_) for type_ in types]
    return _union([*union, {"type": "null"}] if nullable else union, " ".join(filter(None, notes)))


def _union(variants: list[Schema], description: str) -> Schema:
    """Return what fits any of the variants; `anyOf` stands alone, so words go to the first."""
    flat = [
        inner
        for variant in variants
        for inner in cast("list[Schema]", variant.get("anyOf", [variant]))
    ]
    present: list[Schema] = []
    for variant in flat:
        if variant.get("type") != "null" and variant not in present:
            present.append(variant)
    if not present:
        return _noted({"type": "null"}, [description])
    if len(present) < len(flat) and any(variant.get("type") == "null" for variant in flat):
        present[0] = _nullable(present[0])
    present[0] = _noted(present[0], [description, present[0].get("description", "")])
    return present[0] if len(present) == 1 else {"anyOf": present}


def _nullable(schema: Schema) -> Schema:
    return {**schema, "nullable": True}


def _noted(schema: Schema, notes: list[str]) -> Schema:
    text = " ".join(dict.fromkeys(note for note in notes if note))
    return {**schema, "description": text} if text else schema


# --- Declarations, calls and responses


NO_ID: Final = "gemini.no_id"
"""In a call's `meta`: the model gave no id, so its answer carries none."""

# A function's name begins with a letter or an underscore; a tool's may begin otherwise.
_ODD_NAME: Final = re.compile(r"_*[0-9-]")
_ESCAPED_NAME: Final = re.compile(r"_+[0-9-]")


class Gemini:
    """The Gemini API, in the camelCase of its JSON; its Python client takes that as well.

    Example:
        >>> Gemini().calls({"parts": [{"functionCall": {"name": "add", "args": {"a": 1}}}]})[0].name
        'add'
    """

    name = "gemini"

    def schemas(self, tools: Prompt | Iterable[Tool[Any, Any]]) -> list[dict[str, Any]]:
        """Return the tools as one entry of `tools`, with a declaration for each."""
        declarations = [_declaration(tool) for tool in reading.tools_of(tools)]
        return [{"functionDeclarations": declarations}] if declarations else []

    def calls(self, reply: Any) -> list[ToolCall]:
        """Return the calls in a response (its first candidate), a content, or a list of parts."""
        return _calls_in(reading.listed(_content(reply), "parts"))

    def results(self, outcomes: Sequence[Outcome | BaseException]) -> list[dict[str, Any]]:
        """Return one user content with a `functionResponse` part for each outcome."""
        parts = [{"functionResponse": _response(outcome)} for outcome in map(answer, outcomes)]
        return [{"role": "user", "parts": parts}] if parts else []

    def recorded(self, document: Any) -> list[ToolCall] | None:
        """Return the calls of recorded contents or a response, None for anything else.

        A response that stands beside the contents is the reply to them.
        """
        said = reading.listed(document, "contents")
        calls = reading.joined(said, [_content(document)], _calls_of)
        return reading.known(calls, said or [document], "parts", "candidates", each_holds=list)


def _declaration(tool: Tool[Any, Any]) -> dict[str, Any]:
    declaration: dict[str, Any] = {
        "name": _escaped(tool.name),
        "description": reading.description_of(tool),
    }
    schema = parameters(reading.params_schema(tool))
    if schema is not None:
        declaration["parameters"] = schema
    return declaration


def _content(reply: object) -> object:
    """Return the content of a response, of several candidates the first; a content as it is."""
    candidates = reading.items(reading.field(reply, "candidates"))
    return reading.field(candidates[0], "content") if candidates else reply


def _calls_of(entries: list[Any]) -> list[ToolCall]:
    contents = [reading.items(reading.field(_content(entry), "parts")) for entry in entries]
    return [call for parts in contents for call in _calls_in(parts)]


def _calls_in(parts: list[Any]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for part in parts:
        wanted = reading.field(part, "functionCall", "function_call")
        if wanted is None:
            continue
        name, call_id = reading.field(wanted, "name"), reading.field(wanted, "id")
        if isinstance(name, str):
            name = _unescaped(name)
        meta = {} if call_id else {NO_ID: True}
        calls.append(reading.call(name, reading.field(wanted, "args"), call_id, meta))
    return calls


def _response(result: Answer) -> dict[str, Any]:
    response: dict[str, Any] = {
        "name": _escaped(result.name),
        "response": {"output" if result.success else "error": result.text},
    }
    if result.call is not None and NO_ID not in result.call.meta:
        response["id"] = result.call_id
    return response


def _escaped(name: str) -> str:
    return f"_{name}" if _ODD_NAME.match(name) else name


def _unescaped(name: str) -> str:
    return name[1:] if _ESCAPED_NAME.match(name) else name

"""Values in the arguments and the results of calls, as a policy on provenance compares them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from pydantic_core import from_json

from toolstile_hookspecs import Tool, ToolResult, masked
from toolstile_plugins.policies.path_arguments import names_declared_by, schema_of
from toolstile_plugins.rules.phrases import decoded, plain

Value = str | int | float

WHOLE: Final = "*"
"""The name that trusts the whole text of a result without fields."""
SHORTEST: Final = 3
"""The fewest characters of a value that is ruled by `value`, and remembered."""


def arguments_of(tool: Tool[Any, Any], params: Any) -> Mapping[str, Any]:
    """Return the arguments of a call as JSON values, defaults among them, secrets masked."""
    if tool.params_schema is None:
        params = from_json(tool.params_codec.encode(params))
    if secrecy := tool.params_codec.secret_schema():
        params = masked(params, secrecy)
    return cast("Mapping[str, Any]", params) if isinstance(params, Mapping) else {}


def is_default(properties: Mapping[str, Any], argument: str, value: object) -> bool:
    """Tell whether the author of a tool gave a value, as that of an argument left out."""
    declared = properties.get(argument)
    if not isinstance(declared, Mapping):
        return False
    schema = cast("Mapping[str, Any]", declared)
    return "default" in schema and schema["default"] == value


def values_in(value: object, declared: Collection[str]) -> list[Value]:
    """Return the texts and numbers within a JSON value, and the names that nobody has declared."""
    found: list[Value] = []
    _collect(value, declared, found)
    return found


def _collect(value: object, declared: Collection[str], found: list[Value]) -> None:
    # The commonest first: this is on every call's path.
    if isinstance(value, (str, int, float)):
        if not isinstance(value, bool):
            found.append(value)
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            if name not in declared:
                found.append(name)
            _collect(inner, declared, found)
    elif isinstance(value, (list, tuple)):
        for inner in cast("list[object]", value):
            _collect(inner, declared, found)


def texts_of(values: Iterable[Value], *, is_given: bool = False) -> tuple[str, ...]:
    """Return values as they are remembered: each once, as a plain text, without short ones.

    Those that a call has given are remembered as other programs read them, too.
    """
    found: dict[str, None] = {}
    for value in values:
        text = plain(value)
        if len(text) >= SHORTEST:
            found[text] = None
            if is_given:
                found[decoded(text)] = None
    return tuple(found)


def trusted_in(
    tool: Tool[Any, Any], result: ToolResult[Any], fields: Collection[str]
) -> Iterator[Value]:
    """Yield the values of a result that stand in trusted fields, at any depth."""
    value: Any = result.message if result.value is None else result.value
    if not isinstance(value, str):
        value = from_json(tool.result_codec.encode(result.value))
        if secrecy := tool.result_codec.secret_schema():
            value = masked(value, secrecy)
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        # Some servers write their fields as a text. A text within a field may be anybody's.
        with suppress(ValueError):
            value = from_json(value)
    if WHOLE in fields and not _has_fields(value):
        yield from values_in(value, ())
    else:
        yield from _in_fields(value, fields)


def _in_fields(value: object, fields: Collection[str]) -> Iterator[Value]:
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            if name in fields:
                yield from _leaves(inner)
            else:
                yield from _in_fields(inner, fields)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _in_fields(inner, fields)


def _leaves(value: object) -> Iterator[Value]:
    if isinstance(value, Mapping):
        for inner in cast("Mapping[str, object]", value).values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _leaves(inner)
    else:
        yield from values_in(value, ())


def _has_fields(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_fields, cast("list[object]", value)))
    return isinstance(value, Mapping)


def properties_of(tool: Tool[Any, Any]) -> Mapping[str, Any]:
    """Return the arguments that the schema of a tool declares, each with its schema."""
    schema = schema_of(tool) or {}
    found = schema.get("properties")
    if isinstance(found, Mapping):
        return cast("Mapping[str, Any]", found)
    return dict.fromkeys(names_declared_by(tool))

"""Values in the arguments and the results of calls, as a policy on provenance compares them."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set as AbstractSet,
)
from contextlib import suppress
from typing import Any, Final, cast

from pydantic_core import from_json

from toolstile_hookspecs import Contents, Tool, ToolResult, masked
from toolstile_hookspecs.codecs import alternatives
from toolstile_hookspecs.selectors import fits
from toolstile_hookspecs.support.text import suggest
from toolstile_plugins.policies.path_arguments import names_declared_by, names_in, schema_of
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


def values_of_result(
    tool: Tool[Any, Any], result: ToolResult[Any], fields: Collection[str], *, is_all: bool = False
) -> Iterator[Value]:
    """Yield the values of a result that stand in named fields, at any depth, and names there.

    Args:
        tool: The tool.
        result: The result.
        fields: The names of the fields. `WHOLE` stands for a result without fields, and for a
            mapping whose names the tool does not declare.
        is_all: Whether `WHOLE` stands for any result.
    """
    value: Any = result.message if result.value is None else result.value
    if is_all and isinstance(value, Contents):
        value = [*(part.render() for part in value.parts), value.structured]
    elif not isinstance(value, str):
        value = from_json(tool.result_codec.encode(result.value))
        if secrecy := tool.result_codec.secret_schema():
            value = masked(value, secrecy)
    # Some servers write their fields as a text. A text within a field may be anybody's.
    value = _with_fields(value, deep=is_all)
    is_open = issubclass(type(value), Mapping) and _has_open_names(tool)
    if WHOLE in fields and (is_all or is_open or not _has_fields(value)):
        yield from _leaves(value, with_names=is_open)
    else:
        yield from _in_fields(value, fields)


def _with_fields(value: Any, *, deep: bool) -> Any:
    """Return a value with the fields that a text has as JSON, also within others if `deep`."""
    if isinstance(value, str):
        if value.lstrip().startswith(("{", "[")):
            with suppress(ValueError):
                return _with_fields(from_json(value), deep=deep)
    elif deep and isinstance(value, dict):
        inside = cast("dict[str, object]", value)
        return {name: _with_fields(inner, deep=True) for name, inner in inside.items()}
    elif deep and isinstance(value, list):
        return [_with_fields(inner, deep=True) for inner in cast("list[object]", value)]
    return value


def _in_fields(value: object, fields: Collection[str]) -> Iterator[Value]:
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            if name in fields:
                yield from _leaves(inner, with_names=True)
            else:
                yield from _in_fields(inner, fields)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _in_fields(inner, fields)


def _leaves(value: object, *, with_names: bool) -> Iterator[Value]:
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            yield from (name,) if with_names else ()
            yield from _leaves(inner, with_names=with_names)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _leaves(inner, with_names=with_names)
    else:
        yield from values_in(value, ())


def _has_open_names(tool: Tool[Any, Any]) -> bool:
    schema = tool.result_codec.schema()
    parts = [*alternatives([schema], schema)]
    is_mapping = any(part.get("additionalProperties") for part in parts)
    return is_mapping and not any("properties" in part for part in parts)


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


def names_of_result(tool: Tool[Any, Any]) -> AbstractSet[str] | None:
    """Return the names that a tool declares in its results, None where others may come."""
    return names_in(tool.result_codec.schema()) or None


def unknown_names(
    key: str,
    entries: Mapping[str, Iterable[str]],
    tools: Sequence[Tool[Any, Any]],
    names_of: Callable[[Tool[Any, Any]], AbstractSet[str] | None],
) -> list[str]:
    """Return in words which names none of the tools has that a policy names them for."""
    found: list[str] = []
    for pattern, names in entries.items():
        known = [names_of(tool) for tool in tools if fits(tool, pattern)]
        there = frozenset[str]().union(*(each or () for each in known))
        found += [
            f"names {name!r} in {key}, which {pattern!r} does not have{suggest(name, there)}"
            for name in sorted(set(names) - there - {WHOLE} if None not in known else ())
        ]
    return found

"""Arguments with their secrets masked, and the secrets put back into what was edited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

Schema = Mapping[str, Any]

MASK: Final = "*** (unchanged)"
"""Stands for a secret; left as it is in an edit, the secret stays."""
MIN_LENGTH: Final = 3
"""Shorter secrets would be found in the middle of words."""

_COMPOSED: Final = ("anyOf", "oneOf", "allOf")


def masked(value: object, schema: Schema) -> Any:
    """Return arguments without what their schema says is never to be shown.

    Args:
        value: The arguments, as JSON values.
        schema: The JSON Schema of the params, which marks secrets as `writeOnly`.
    """
    return _masked(value, [schema], schema)


def secrets_in(value: Any, hidden: Any) -> Iterator[str]:
    """Yield the texts that were masked: where arguments and their masked form differ."""
    inside: Any = hidden
    if hidden == MASK and value != MASK:
        yield from _texts(value)
    elif isinstance(value, dict):
        for name, each in cast("dict[str, object]", value).items():
            yield from secrets_in(each, inside[name])
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[object]", value)):
            yield from secrets_in(each, inside[index])


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return a text with secrets masked."""
    for secret in secrets:
        if len(secret) >= MIN_LENGTH:
            text = text.replace(secret, "***")
    return text


def unmasked(edited: object, value: object) -> Any:
    """Return edited arguments with the secrets back in their places.

    Raises:
        ValueError: When a mask stands where there was no secret.
    """
    if edited == MASK:
        if value is None:
            raise ValueError(f"{MASK!r} stands where there was no secret; write the value there.")
        return value
    if isinstance(edited, dict):
        inside = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        return {
            name: unmasked(each, inside.get(name))
            for name, each in cast("dict[str, object]", edited).items()
        }
    if isinstance(edited, list):
        items = cast("list[object]", value) if isinstance(value, list) else []
        return [
            unmasked(each, items[index] if index < len(items) else None)
            for index, each in enumerate(cast("list[object]", edited))
        ]
    return edited


def _masked(value: object, schemas: list[Schema], root: Schema) -> Any:
    schemas = list(_alternatives(schemas, root))
    if value is not None and any(each.get("writeOnly") is True for each in schemas):
        return MASK
    if isinstance(value, dict):
        return {
            name: _masked(
                each, [inside for schema in schemas for inside in _of(schema, name)], root
            )
            for name, each in cast("dict[str, object]", value).items()
        }
    if isinstance(value, list):
        return [
            _masked(each, [inside for schema in schemas for inside in _at(schema, index)], root)
            for index, each in enumerate(cast("list[object]", value))
        ]
    return value


def _alternatives(schemas: Iterable[Schema], root: Schema) -> Iterator[Schema]:
    """Yield the schemas and all they are made of; what one of them hides is hidden."""
    waiting, seen = list(schemas), set[str]()
    while waiting:
        schema = waiting.pop()
        yield schema
        target = schema.get("$ref")
        if isinstance(target, str) and target not in seen:
            seen.add(target)
            waiting += _schemas([_resolved(target, root)])
        for key in _COMPOSED:
            waiting += _schemas(schema.get(key, ()))


def _of(schema: Schema, name: str) -> list[Schema]:
    properties = schema.get("properties", {})
    if name in properties:
        return _schemas([properties[name]])
    patterns = schema.get("patternProperties", {}).values()
    return _schemas([schema.get("additionalProperties"), *patterns])


def _at(schema: Schema, index: int) -> list[Schema]:
    first = schema.get("prefixItems", ())
    return _schemas([first[index] if index < len(first) else schema.get("items")])


def _resolved(target: str, root: Schema) -> object:
    at: object = root
    for part in target.removeprefix("#/").split("/"):
        at = cast("Mapping[str, object]", at if isinstance(at, Mapping) else {}).get(part)
    return at


def _schemas(found: Iterable[object]) -> list[Schema]:
    return [cast("Schema", each) for each in found if isinstance(each, Mapping)]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in cast("dict[str, object]", value).values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _texts(each)
    elif value is not None and not isinstance(value, bool):
        yield str(value)

"""Keeping secrets out of texts, arguments and values for people and programs.

Types (`Secret`, pydantic's `SecretStr`, `SecretBytes` and `Secret[...]`) and schemas (`writeOnly`,
`format: "password"`) mark secrets; a schema made of a type has the marks of the type.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus

from pydantic import BaseModel, Secret as PydanticSecret, SecretBytes, SecretStr

from toolstile_hookspecs._schema.json_schema import (
    Schema,
    alternatives,
    of_item,
    of_property,
    schemas_among,
)

MASK: Final = "***"
MIN_LENGTH: Final = 3
"""Shorter secrets would be found in the middle of words."""

HIDING: Final = (SecretStr, SecretBytes, PydanticSecret)
"""Pydantic's types of secrets; all have `get_secret_value`."""
_PLAIN: Final = (str, bytes, int, float, type(None))
"""Types without parts, looked for first."""


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return a text with secrets masked, the longer ones first.

    They are found as they are, and as JSON, a `repr` or an address would quote them.

    Example:
        >>> hide("signed in with hunter2", ["hunter2"])
        'signed in with ***'
    """
    return _hidden(text, _all_forms(secrets))


def _hidden(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        text = text.replace(form, MASK)
    return text


def _all_forms(secrets: Iterable[str]) -> list[str]:
    found = {form for secret in secrets if len(secret) >= MIN_LENGTH for form in _forms(secret)}
    return sorted(found, key=len, reverse=True)


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms of a secret in texts: unchanged, and quoted in the usual ways."""
    yield secret
    if secret.isalnum() and secret.isascii():
        return
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    octets = secret.encode("utf-8", "surrogatepass")
    yield repr(octets)[2:-1]
    yield quote(octets)
    yield quote(octets, safe="")
    yield quote_plus(octets)


def hide_within(value: object, secrets: Iterable[str]) -> Any:
    """Return a JSON value with secrets masked in all its texts, and numbers that are secrets."""
    return _hidden_within(value, _all_forms(secrets))


def _hidden_within(value: object, forms: list[str]) -> Any:
    if isinstance(value, str):
        return _hidden(value, forms)
    if isinstance(value, dict):
        inside = cast("dict[str, object]", value)
        return {_hidden(name, forms): _hidden_within(part, forms) for name, part in inside.items()}
    if isinstance(value, list):
        return [_hidden_within(part, forms) for part in cast("list[object]", value)]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return MASK if str(value) in forms else value
    return value


def masked(value: object, schema: Schema, mask: str = MASK) -> Any:
    """Return a JSON value with `mask` in place of the secrets that its schema marks.

    Example:
        >>> masked({"name": "Ada", "pin": "1234"}, {"properties": {"pin": {"writeOnly": True}}})
        {'name': 'Ada', 'pin': '***'}
    """
    return _replaced(value, [schema], schema, lambda _: mask)


def secrets_of(value: object, schema: Schema) -> Iterator[str]:
    """Yield the texts in a JSON value that its schema marks as secret."""
    found: list[object] = []
    _replaced(value, [schema], schema, found.append)
    for secret in found:
        yield from _texts(secret)


def secrets_in(value: object) -> Iterator[str]:
    """Yield the content of fields of secret types in a typed value, at any depth."""
    for part in _leaves(value):
        if isinstance(part, Secret):
            yield from _texts(part.reveal())
        elif isinstance(part, HIDING):
            yield from _texts(cast("Any", part).get_secret_value())


def _texts(value: object) -> Iterator[str]:
    for part in _leaves(value):
        if isinstance(part, str):
            yield part
        elif isinstance(part, bytes):
            text = part.decode(errors="replace")
            yield text
            if "\ufffd" in text:  # only its `repr` stands in texts
                yield repr(part)[2:-1]
        elif isinstance(part, (int, float)) and not isinstance(part, bool):
            yield str(part)


def _leaves(value: object) -> Iterator[Any]:
    waiting, seen = [value], set[int]()
    while waiting:
        part: Any = waiting.pop()
        inside = None if isinstance(part, _PLAIN) else _parts(part)
        if inside is None:
            yield part
        elif id(part) not in seen:
            seen.add(id(part))
            waiting += reversed([*inside])


def _parts(value: object) -> Iterable[Any] | None:
    if isinstance(value, BaseModel) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        if hasattr(value, "__dict__"):
            return vars(value).values()
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, dict):
        items = cast("dict[object, Any]", value)
        # Names are shown, unless they are secrets themselves.
        return [*(name for name in items if not isinstance(name, _PLAIN)), *items.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return cast("Iterable[Any]", value)
    return None


def _replaced(
    value: object, schemas: list[Schema], root: Schema, replace: Callable[[object], object]
) -> Any:
    # A part is hidden if one of its schemas hides it.
    schemas = list(alternatives(schemas, root))
    if value is not None and _hide(schemas):
        return replace(value)
    if isinstance(value, dict):
        names = schemas_among(schema.get("propertyNames") for schema in schemas)
        names_too = _hide(alternatives(names, root))
        return {
            replace(name) if names_too else name: _replaced(
                part, of_property(schemas, name), root, replace
            )
            for name, part in cast("dict[str, object]", value).items()
        }
    if isinstance(value, list):
        return [
            _replaced(part, of_item(schemas, index), root, replace)
            for index, part in enumerate(cast("list[object]", value))
        ]
    return value


def _hide(schemas: Iterable[Schema]) -> bool:
    return any(
        part.get("writeOnly") is True or part.get("format") == "password" for part in schemas
    )


class Secret:
    """Keeps a value out of every text; `reveal()` gives it.

    Example:
        >>> Secret("hunter2")
        Secret(***)
    """

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def reveal(self) -> Any:
        """Return the value itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

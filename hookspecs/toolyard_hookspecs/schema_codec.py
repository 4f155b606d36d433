"""Plain JSON values to and from JSON text, as a JSON Schema from elsewhere allows them.

Source of the rules: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

import importlib
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, cast

import pydantic_core

from toolyard_hookspecs.errors import DefinitionError, ToolValidationError
from toolyard_hookspecs.faults import (
    MAX_REASON,
    Schema,
    holds_secret,
    listing,
    not_json,
    place,
    shorten,
)
from toolyard_hookspecs.strict_json import check_names
from toolyard_hookspecs.unwritable import finite

Json = str | bytes


class SchemaCodec:
    """The codec of a JSON Schema that came from elsewhere; values are plain JSON values.

    Validation is `jsonschema`'s, the reference of its field; references to other
    documents are never fetched.

    Args:
        schema: The schema, draft 2020-12 unless it says otherwise.
        owner: What the schema belongs to, for error messages.

    Raises:
        DefinitionError: When the schema itself is wrong, or refers to what is not in it.
    """

    __slots__ = ("_schema", "_shows", "_validator", "faithful", "immutable")

    def __init__(self, schema: Mapping[str, Any], *, owner: str) -> None:
        # Heavy, and most tools are typed.
        from jsonschema import Draft202012Validator, SchemaError, validators
        from referencing import Registry

        self._schema = dict(schema)
        self.immutable = False
        # What is told to be JSON may be anything that can be written as such.
        self.faithful = None
        self._shows = not holds_secret(self._schema)
        drafts: Any = validators
        kind: Any = drafts.validator_for(self._schema, default=Draft202012Validator)
        try:
            kind.check_schema(self._schema)
        except SchemaError as error:
            raise DefinitionError(
                f"{owner}: its JSON Schema is not valid at {error.json_path}: {error.message}; "
                "correct it there."
            ) from error
        for target in _references(self._schema):
            if not _is_within(self._schema, target):
                raise DefinitionError(
                    f"{owner}: its JSON Schema refers to {target!r}, which is not in it; copy "
                    "that part into $defs and refer to it as '#/$defs/...'."
                )
        nothing_fetched: Registry[Any] = Registry()
        bounded: Any = drafts.extend(kind, {"pattern": _pattern})
        self._validator: Any = bounded(self._schema, registry=nothing_fetched)

    def schema(self) -> dict[str, Any]:
        """Return a copy of the schema."""
        return cast("dict[str, Any]", json.loads(json.dumps(self._schema)))

    def secret_schema(self) -> Schema:
        """Return the schema where it says that something is secret, else an empty one."""
        return {} if self._shows else self._schema

    def decode(self, text: Json) -> Any:
        """Return the JSON value; every fault in one `ToolValidationError`."""
        try:
            value = pydantic_core.from_json(text, allow_inf_nan=False)
        except (ValueError, TypeError) as error:
            raise ToolValidationError(not_json(_printable(str(error)))) from None
        check_names(text)
        if faults := self._faults(value):
            raise ToolValidationError(listing(faults))
        return value

    def copy(self, text: Json) -> Any:
        """Return the JSON value of a text that was decoded before, once more."""
        return pydantic_core.from_json(text)

    def encode(self, value: object) -> bytes:
        """Return the value as compact JSON."""
        return finite(pydantic_core.to_json(value, inf_nan_mode="null"), lambda: value)

    def fits(self, value: object) -> str | None:
        """Return why the value does not fit the schema, or None when it does."""
        try:
            plain = pydantic_core.from_json(self.encode(value))
        except ValueError as error:
            return str(error)
        faults = self._faults(plain)
        return listing(faults) if faults else None

    def _faults(self, value: Any) -> list[str]:
        found: list[Any] = list(self._validator.iter_errors(value))
        found.sort(key=operator.attrgetter("json_path"))
        return [f"{place(each.absolute_path)}: {self._reason(each)}" for each in found]

    def _reason(self, fault: Any) -> str:
        if self._shows:
            return shorten(fault.message, MAX_REASON)
        return f"does not fit what the schema says of {fault.validator!r}"


def _pattern(validator: Any, pattern: str, instance: Any, schema: Schema) -> Iterator[Any]:  # noqa: ARG001 - as jsonschema calls it
    """Yield a fault where a text does not match a pattern; in bounded time, where RE2 takes it."""
    if validator.is_type(instance, "string") and not _searcher(pattern)(instance):
        from jsonschema import ValidationError

        yield ValidationError(f"{instance!r} does not match {pattern!r}")


@lru_cache(maxsize=1024)
def _searcher(pattern: str) -> Callable[[str], object]:
    # Heavy, and few schemas have a pattern.
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        return cast("Callable[[str], object]", re2.compile(pattern, options).search)
    except (re2.error, UnicodeEncodeError):
        return re.compile(pattern).search


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _references(value: object) -> Iterator[str]:
    """Yield what a schema refers to, wherever it does."""
    if isinstance(value, Mapping):
        for name, inside in cast("Mapping[str, object]", value).items():
            if name in {"$ref", "$dynamicRef"} and isinstance(inside, str):
                yield inside
            else:
                yield from _references(inside)
    elif isinstance(value, list):
        for inside in cast("list[object]", value):
            yield from _references(inside)


def _is_within(schema: Mapping[str, Any], target: str) -> bool:
    """Tell whether a schema itself holds what it refers to by a JSON pointer.

    Anchors and identifiers are left to the validator.
    """
    if not target.startswith("#/"):
        return target == "#" or any(f'"{name}"' in json.dumps(schema) for name in _NAMED)
    here: Any = schema
    for part in target.removeprefix("#/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isdecimal() and int(name) < len(cast("Any", here)):
            here = cast("Any", here)[int(name)]
        elif isinstance(here, Mapping) and name in here:
            here = cast("Any", here)[name]
        else:
            return False
    return True


_NAMED: Final = ("$id", "$anchor", "$dynamicAnchor")

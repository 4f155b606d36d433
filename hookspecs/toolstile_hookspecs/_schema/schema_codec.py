"""Plain JSON values to and from JSON text, as a JSON Schema from elsewhere allows them.

Source of the rules: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, reduce
from itertools import groupby
from operator import attrgetter, getitem
from typing import Any, Final, cast

import pydantic_core
from pydantic_core import ErrorDetails

from toolstile_hookspecs._schema.codec import Json, holds_whole_floats, with_whole_numbers
from toolstile_hookspecs._schema.core_schema import MARK, Path
from toolstile_hookspecs._schema.json_schema import (
    ALL_SECRET,
    Schema,
    alternatives,
    bounded_validator,
    chain_of,
    check_schema,
    holds_secret,
    of_item,
    of_property,
    path_of,
    pointed,
    subschemas,
)
from toolstile_hookspecs._schema.serialize import as_plain, encodable, finite
from toolstile_hookspecs._schema.validation_errors import (
    FAULT,
    MAX_FAULTS,
    NOT_KNOWN,
    OTHER,
    Lines,
    in_json,
    listing,
    not_json,
)
from toolstile_hookspecs.errors import DefinitionError, ToolValidationError
from toolstile_hookspecs.support.text import suggest

UNCHECKED: Final = (
    "Invalid arguments: they cannot be checked, since they are nested too deeply, or the tool's "
    "JSON Schema refers to itself without an end. Nest them less; if that does not help, do "
    "without this tool."
)


class Unchecked(ToolValidationError):
    """The check of a value against a schema cannot be completed."""


_MOST_STEPS: Final = 2_000
"""Schemas one within another that one check may follow: a validator that runs out of stack ends
the process."""
_DEEPEST: Final = 202
"""Levels of a value that pydantic reads from JSON."""
_REFERENCE: Final = re.compile(r'"\$ref": "(#[^"\\]*)"')
_ONLY_COMPILING_TELLS: Final = re.compile(
    r'"(?:\$(?!schema"|defs"|ref": "#[/"])|pattern|id": "|http[^"]*draft-03)'
)
_INTEGERS: Final = re.compile('"(?:integer|enum|const)"')


class SchemaCodec:
    """The codec of a JSON Schema that came from elsewhere; values are plain JSON values.

    Validation is that of `jsonschema-rs`; references to other documents are never fetched.

    Args:
        schema: The schema, draft 2020-12 unless it says otherwise.
        owner: The owner of the schema, for error messages.

    Raises:
        DefinitionError: If the schema is wrong, or refers to a schema outside.
    """

    def __init__(self, schema: Mapping[str, Any], *, owner: str) -> None:
        self.immutable = False
        try:
            text = json.dumps(dict(schema))
            self._schema: dict[str, Any] = pydantic_core.from_json(text)
        except (TypeError, ValueError, RecursionError) as error:
            deep = isinstance(error, RecursionError) or "recursion" in str(error)
            told = "nested too deeply to be checked; nest it less" if deep else f"not JSON: {error}"
            raise DefinitionError(f"{owner}: its JSON Schema is {told}.") from None
        if '"nullable": true' in text:
            # OpenAPI 3.0 writes the type `null` so.
            for part in cast("Iterable[dict[str, Any]]", subschemas(self._schema)):
                if part.get("nullable") is True and isinstance(part.get("type"), str):
                    del part["nullable"]
                    part["type"] = [part["type"], "null"]
        try:
            check_schema(self._schema)
            targets = (pointed(self._schema, each) for each in {*_REFERENCE.findall(text)})
            leads_on = all(isinstance(target, (dict, bool)) for target in targets)
            if _ONLY_COMPILING_TELLS.search(text) or not leads_on:
                bounded_validator(self._schema)
        except ValueError as error:
            raise DefinitionError(f"{owner}: its JSON Schema {error}.") from error
        may_hide = '"writeOnly"' in text or '"password"' in text
        self._secrecy: Schema = secrecy_of(self._schema) if may_hide else {}
        self._has_integers = _INTEGERS.search(text) is not None

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self._schema)

    @cached_property
    def _compiled(self) -> tuple[Any, float]:
        return bounded_validator(self._schema), chain_of(self._schema)

    def schema(self) -> dict[str, Any]:
        """Return a copy of the schema."""
        return cast("dict[str, Any]", json.loads(json.dumps(self._schema)))

    def secret_schema(self) -> Schema:
        """Return the schema if it marks a secret, else an empty one.

        If masking cannot follow the mark, the schema hides everything.
        """
        return self._secrecy

    def decode(self, text: Json) -> Any:
        """Return the JSON value; every fault in one `ToolValidationError`.

        Raises:
            ToolValidationError: If it is not JSON, or does not fit; `Unchecked` if the check
                cannot be completed.
        """
        try:
            value = pydantic_core.from_json(text, allow_inf_nan=False)
        except (ValueError, TypeError) as error:
            raise ToolValidationError(not_json(encodable(str(error)))) from None
        if holds_whole_floats(text, value) and self._has_integers:
            whole = pydantic_core.from_json(with_whole_numbers(text))
            value = _with_integers(value, whole, [self._schema], self._schema)
        if faults := self._faults(value):
            raise ToolValidationError(listing(faults))
        return value

    def read(self, text: Json) -> tuple[Any, bytes]:
        """Return the JSON value, as `decode` does, and its JSON, as `encode` does."""
        value = self.decode(text)
        return value, self.encode(value)

    def copy(self, text: Json) -> Any:
        """Return another JSON value of a text that was decoded before."""
        return pydantic_core.from_json(text)

    def encode(self, value: object) -> bytes:
        """Return the value as compact JSON.

        Raises:
            ValueError: When it has none, such as NaN.
        """
        text = pydantic_core.to_json(value, inf_nan_mode="null", fallback=as_plain)
        return finite(text, lambda: value)

    def fits(self, value: object, *, is_read: bool = False) -> str | None:
        """Return why the value does not fit the schema, or None when it does.

        Args:
            value: The value.
            is_read: Whether it was read from JSON, and so is not nested too deeply for a validator.
        """
        try:
            faults = self._faults(value if is_read else pydantic_core.from_json(self.encode(value)))
        except ValueError as error:
            return str(error)
        return listing(faults) if faults else None

    def _faults(self, value: Any) -> list[str]:
        validator, steps = self._compiled
        if steps * _DEEPEST > _MOST_STEPS and steps * _depth_of(value) > _MOST_STEPS:
            raise Unchecked(UNCHECKED)
        if validator.is_valid(value):
            return []
        found = sorted(validator.iter_errors(value), key=lambda fault: path_of(fault.instance_path))
        return [*dict.fromkeys(self._lines.of(self._details(found, value)))]

    def _details(
        self, faults: Iterable[Any], value: Any, before: Path = (), start: int = 0
    ) -> Iterator[ErrorDetails]:
        """Yield faults as pydantic has them, once for each name that they are about.

        The value is the part that is `start` steps within the whole; `before` leads to it.
        """
        for (steps, rule), group in groupby(faults, attrgetter("instance_path", "schema_path")):
            same, path = [*group], (*before, *steps[start:])
            instance = reduce(getitem, steps[start:], value)
            if rule[-1:] != ["required"]:
                for fault in same:
                    yield from self._details_of(fault, instance, path)
                continue
            missing = [fault.kind.property for fault in same]
            # Other names may be allowed, so only those near a missing name count as mistakes.
            others = [name for name in instance if name not in self._lines.declared][:MAX_FAULTS]
            yield from _about("missing", path, missing)
            strangers = [name for name in others if suggest(name, missing)]
            yield from _about("extra_forbidden", path, strangers)

    def _details_of(self, fault: Any, instance: Any, path: Path) -> Iterator[ErrorDetails]:
        keyword, said = fault.kind.name, fault.kind.as_dict()
        alternatives, start = said.get("context", ()), len(fault.instance_path)
        if keyword == "additionalProperties":
            # Names are compared only as far as they are shown, because comparing takes long.
            yield from _about("extra_forbidden", path, said["unexpected"][:MAX_FAULTS])
            yield from _about(FAULT, path, said["unexpected"][MAX_FAULTS:])
        elif keyword == "propertyNames":
            yield from self._details([said["error"]], said["error"].instance, path, start)
        elif alternatives and all(alternatives):
            for number, faults in enumerate(alternatives):
                yield from self._details(faults, instance, (*path, f"{MARK}{number}"), start)
        else:
            yield _detail(_TYPES.get(keyword, FAULT), path, self._reason(fault, instance))

    def _reason(self, fault: Any, instance: Any) -> str:
        keyword, said = fault.kind.name, fault.kind.as_dict()
        wanted, limit = self._at(fault.schema_path), said.get("limit")
        said["got"] = in_json(instance) if self._lines.shows else ""
        if keyword == "type":
            types = cast("list[str]", wanted if isinstance(wanted, list) else said["types"])
            said["listed"] = " or ".join(map(repr, types))
        elif keyword in _LISTING:
            said["listed"] = in_json(said.get("options") or [said.get("expected_value")])
        elif keyword != "oneOf" and not self._lines.shows:
            return f"does not fit {keyword!r} of the schema"
        elif keyword == "required":
            needs: dict[str, Any] = wanted or {}
            given = [other for other in instance if said["property"] in needs.get(other, ())]
            said["listed"] = " or ".join(map(repr, given))
        elif keyword == "contains":
            keyword = str(fault.schema_path[-1])
        elif keyword in _EMPTY and limit == (keyword[:3] == "min"):
            keyword = "empty" if limit == 0 else "full"
        said |= {"pattern": wanted} if keyword == "pattern" and wanted else {}
        said |= {"schema": in_json(said["schema"])} if keyword == "not" else {}
        return _SAYS[keyword].format(**said).lstrip() if keyword in _SAYS else str(fault.message)

    def _at(self, rule: list[int | str]) -> Any:
        """Return the part of the schema at a path, None if it is in another resource."""
        try:
            return reduce(getitem, rule, cast("Any", self._schema))
        except (KeyError, IndexError, TypeError):
            return None


_LISTING: Final = ("const", "enum")
_TYPES: Final = {"type": OTHER, **dict.fromkeys(_LISTING, "enum")}
_EMPTY: Final = tuple(
    f"{end}{of}" for end in ("min", "max") for of in ("Items", "Length", "Properties")
)
_SAYS: Final = {
    "const": "{got} is not one of {listed}",
    "contains": "{got} does not contain items matching the given schema",
    "empty": "{got} is expected to be empty",
    "enum": "{got} is not one of {listed}",
    "exclusiveMaximum": "{got} is greater than or equal to the maximum of {limit}",
    "exclusiveMinimum": "{got} is less than or equal to the minimum of {limit}",
    "falseSchema": "false schema does not allow {got}",
    "full": "{got} should be non-empty",
    "maxContains": "{got} holds too many items matching the given schema",
    "maxItems": "{got} is too long",
    "maxLength": "{got} is too long",
    "maxProperties": "{got} has too many properties",
    "maximum": "{got} is greater than the maximum of {limit}",
    "minContains": "{got} holds too few items matching the given schema",
    "minItems": "{got} is too short",
    "minLength": "{got} is too short",
    "minProperties": "{got} does not have enough properties",
    "minimum": "{got} is less than the minimum of {limit}",
    "multipleOf": "{got} is not a multiple of {multiple_of}",
    "not": "{got} should not be valid under {schema}",
    "oneOf": "fits more than one alternative of the schema, which must be one",
    "pattern": "{got} does not match {pattern!r}",
    "required": "{property!r} is a dependency of {listed}",
    "type": "{got} is not of type {listed}",
    "uniqueItems": "{got} has non-unique elements",
}
"""The words for a value that does not fit, by keyword; jsonschema-rs would repeat the value."""


def _about(type_: str, path: Path, names: Iterable[str]) -> Iterator[ErrorDetails]:
    return (_detail(type_, (*path, name), NOT_KNOWN) for name in names)


def _detail(type_: str, path: Path, told: str) -> ErrorDetails:
    return {"type": type_, "loc": path, "msg": told, "input": ...}


def _depth_of(value: object) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [inner for part in level for inner in _inner(part)]
    return depth


def _inner(part: object) -> Iterable[object]:
    if isinstance(part, dict):
        return cast("Schema", part).values()
    return cast("list[object]", part) if isinstance(part, list) else ()


def _with_integers(value: Any, whole: Any, schemas: list[Schema], root: Schema) -> Any:
    """Return a value with integers where its schema says so; other numbers stay as written."""
    schemas = list(alternatives(schemas, root))
    if isinstance(value, float):
        listed = (item for part in schemas for item in [*part.get("enum", ()), part.get("const")])
        is_listed = any(type(item) is int and item == whole for item in listed)
        types = [part.get("type") for part in schemas]
        is_integer = is_listed or any("integer" in (type_ or ()) for type_ in types)
        return whole if is_integer else value
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {
            name: _with_integers(part, whole[name], of_property(schemas, name), root)
            for name, part in items
        }
    if isinstance(value, list):
        return [
            _with_integers(part, whole[index], of_item(schemas, index), root)
            for index, part in enumerate(cast("Iterable[Any]", value))
        ]
    return value


# --- Secrets


_NOT_FOLLOWED: Final = re.compile(
    r'"(if|then|else|dependentSchemas|dependencies|unevaluated\w+|additionalItems|contains'
    r'|\$(dynamicRef|recursiveRef|anchor|id))": |"items": \[|"\$ref": "(?!#["/])'
)
"""Keywords of a schema's JSON that masking does not follow."""
_WHOLE: Final[Schema] = {"writeOnly": True}


def secrecy_of(schema: Schema) -> Schema:
    """Return the schema for masking: this one, an empty one, or one that hides everything.

    Without a secret there is nothing to mask; with one, and keywords that masking does not follow,
    anything may be secret.

    Example:
        >>> secrecy_of({"if": {}, "then": {"properties": {"pin": {"writeOnly": True}}}})
        {'writeOnly': True}
    """
    if not holds_secret(schema):
        return {}
    parts = {name: part for name, part in schema.items() if name != "$id"}
    if not _NOT_FOLLOWED.search(json.dumps(parts, default=str)):
        return schema
    # The names of an object are shown, because they show that values are masked.
    return ALL_SECRET if schema.get("type") in ("object", "array") else _WHOLE

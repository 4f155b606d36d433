"""Plain JSON values to and from JSON text, as a JSON Schema from elsewhere allows them.

Source of the rules: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

import copy
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, cast

import pydantic_core
from pydantic_core import ErrorDetails

from toolstile_hookspecs._schema.codec import STRICT, Json, with_whole_numbers
from toolstile_hookspecs._schema.navigation import (
    ALL_SECRET,
    Schema,
    alternatives,
    holds_secret,
    of_item,
    of_property,
    pointed,
    subschemas,
)
from toolstile_hookspecs._schema.serialize import as_plain, encodable, finite
from toolstile_hookspecs._schema.union_marks import MARK, Path
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
from toolstile_hookspecs.support.patterns import bounded_ecma
from toolstile_hookspecs.support.text import suggest

UNCHECKED: Final = (
    "Invalid arguments: they cannot be checked, since they are nested too deeply, or the tool's "
    "JSON Schema refers to itself without an end. Nest them less; if that does not help, do "
    "without this tool."
)


class Unchecked(ToolValidationError):
    """The check of a value against a schema cannot be completed."""


def with_nulls(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with `null` among the types where OpenAPI 3.0 says `nullable: true`."""
    if '"nullable": true' not in json.dumps(schema, default=str):
        return schema
    changed = copy.deepcopy(schema)
    for part in cast("Iterable[dict[str, Any]]", subschemas(changed)):
        if part.get("nullable") is True and isinstance(part.get("type"), str):
            del part["nullable"]
            part["type"] = [part["type"], "null"]
    return changed


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

    def __init__(self, schema: Mapping[str, Any], *, owner: str) -> None:
        from jsonschema import SchemaError  # heavy, and most tools are typed

        self._schema = dict(schema)
        self.immutable = False
        try:
            self._schema = with_nulls(self._schema)
            self._secrecy = secrecy_of(self._schema)
            self._lines = Lines(self._schema)
            check_schema(self._schema)
        except SchemaError as error:
            raise DefinitionError(
                f"{owner}: its JSON Schema is not valid at {error.json_path}: {error.message}; "
                "correct it there."
            ) from error
        except RecursionError:
            raise DefinitionError(
                f"{owner}: its JSON Schema is nested too deeply to be checked; nest it less."
            ) from None
        if fault := _unsearchable(self._schema):
            raise DefinitionError(f"{owner}: {fault}.")
        for target in (name for part in subschemas(self._schema) for name in _references_of(part)):
            if not _is_within(self._schema, target):
                raise DefinitionError(
                    f"{owner}: its JSON Schema refers to {target!r}, which is not in it; copy "
                    "that part into $defs and refer to it as '#/$defs/...'."
                )
        self._validator = bounded_validator(self._schema)

    def schema(self) -> dict[str, Any]:
        """Return a copy of the schema."""
        return cast("dict[str, Any]", json.loads(json.dumps(self._schema)))

    def secret_schema(self) -> Schema:
        """Return the schema where it says that something is secret, else an empty one.

        Where it says so in a way that masking does not go, one that hides everything.
        """
        return self._secrecy

    def decode(self, text: Json) -> Any:
        """Return the JSON value; every fault in one `ToolValidationError`.

        Raises:
            ToolValidationError: When it is not JSON, or does not fit; `Unchecked` where nobody
                can tell.
        """
        try:
            value = pydantic_core.from_json(text, allow_inf_nan=False)
        except (ValueError, TypeError) as error:
            raise ToolValidationError(not_json(encodable(str(error)))) from None
        STRICT.decode(text if isinstance(text, str) else text.decode())
        if (whole := with_whole_numbers(text)) != text:
            value = _with_integers(
                value, pydantic_core.from_json(whole), [self._schema], self._schema
            )
        if faults := self._faults(value):
            raise ToolValidationError(listing(faults))
        return value

    def copy(self, text: Json) -> Any:
        """Return the JSON value of a text that was decoded before, once more."""
        return pydantic_core.from_json(text)

    def encode(self, value: object) -> bytes:
        """Return the value as compact JSON.

        Raises:
            ValueError: When it has none, such as NaN.
        """
        text = pydantic_core.to_json(value, inf_nan_mode="null", fallback=as_plain)
        return finite(text, lambda: value)

    def fits(self, value: object) -> str | None:
        """Return why the value does not fit the schema, or None when it does."""
        try:
            faults = self._faults(pydantic_core.from_json(self.encode(value)))
        except ValueError as error:
            return str(error)
        return listing(faults) if faults else None

    def _faults(self, value: Any) -> list[str]:
        try:
            found: list[Any] = list(self._validator.iter_errors(value))
        except BaseException as error:
            if not _is_out_of_stack(error):
                raise
            raise Unchecked(UNCHECKED) from None
        found.sort(key=operator.attrgetter("json_path"))
        details = (detail for fault in found for detail in self._details(fault))
        return [*dict.fromkeys(self._lines.of(details))]

    def _details(self, fault: Any, before: Path = ()) -> Iterator[ErrorDetails]:
        """Yield a fault as pydantic has it, once for each name that it is about."""
        path: Path = (*before, *fault.relative_path)
        missing = _missing(fault)
        # What else may be given nobody lists, so only what is near it counts as mistaken.
        given = fault.instance if missing else ()
        others = [name for name in given if name not in self._lines.declared][:MAX_FAULTS]
        strangers = [name for name in others if suggest(name, missing)]
        if fault.validator == "additionalProperties":
            strangers = _extras(fault.instance, fault.schema)
        # No more than these are shown, and to compare names takes long.
        near, rest = strangers[:MAX_FAULTS], strangers[MAX_FAULTS:]
        for type_, names in (("missing", missing), ("extra_forbidden", near), (FAULT, rest)):
            yield from (_detail(type_, (*path, name), NOT_KNOWN) for name in names)
        if fault.context:
            for inner in fault.context:
                number = next(iter(inner.schema_path), 0)
                yield from self._details(inner, (*path, f"{MARK}{number}"))
        elif not missing and not strangers:
            yield _detail(_TYPES.get(fault.validator, FAULT), path, self._reason(fault))

    def _reason(self, fault: Any) -> str:
        got = f"{in_json(fault.instance)} " if self._lines.shows else ""
        wanted, told = fault.validator_value, str(fault.message)
        if fault.validator == "type":
            types = [wanted] if isinstance(wanted, str) else wanted
            return f"{got}is not of type {' or '.join(map(repr, types))}"
        if fault.validator in _LISTING:
            listed = wanted if fault.validator == "enum" else [wanted]
            return f"{got}is not one of {in_json(listed)}"
        if fault.validator == "oneOf":
            return "fits more than one alternative of the schema, which must be one"
        if not got:
            return f"does not fit what the schema says of {fault.validator!r}"
        if fault.validator == "not":
            told = told.replace(repr(wanted), in_json(wanted))
        return told.replace(repr(fault.instance), in_json(fault.instance))


_LISTING: Final = ("const", "enum")
_TYPES: Final = {"type": OTHER, **dict.fromkeys(_LISTING, "enum")}


def _detail(type_: str, path: Path, told: str) -> ErrorDetails:
    return {"type": type_, "loc": path, "msg": told, "input": ...}


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


def _is_out_of_stack(error: BaseException) -> bool:
    # What follows references is written in Rust, and panics where the stack ends in it.
    return isinstance(error, RecursionError) or type(error).__name__ == "PanicException"


def _missing(fault: Any) -> list[str]:
    # In the oldest draft it is a boolean.
    if fault.validator != "required" or isinstance(fault.validator_value, bool):
        return []
    return [name for name in fault.validator_value if name not in fault.instance]


def _references_of(part: Schema) -> list[str]:
    found = (part.get(name) for name in ("$ref", "$dynamicRef"))
    return [target for target in found if isinstance(target, str)]


def _parts(schema: Schema) -> list[Schema]:
    """Return every schema within a schema, also those that only a reference leads to."""
    parts = list(subschemas(schema))
    known = set(map(id, parts))
    for part in parts:
        for target in _references_of(part):
            inner = pointed(schema, target) if target.startswith("#/") else None
            found = [each for each in subschemas(inner) if id(each) not in known]
            known.update(map(id, found))
            parts += found
    return parts


def _is_within(schema: Mapping[str, Any], target: str) -> bool:
    """Tell whether a schema itself holds what it refers to by a JSON pointer.

    Anchors and identifiers are left to the validator.
    """
    if not target.startswith("#/"):
        return target == "#" or any(f'"{name}"' in json.dumps(schema) for name in _NAMED)
    return pointed(schema, target) is not None


_NAMED: Final = ("$id", "$anchor", "$dynamicAnchor")


# --- Keywords of its own


def check_schema(schema: Schema) -> None:
    """Check that a JSON Schema is valid in its draft.

    Raises:
        jsonschema.SchemaError: When it is not.
    """
    # Formats are not checked: Python's `re` would judge the patterns.
    _draft_of(schema).check_schema(schema, format_checker=None)


def bounded_validator(schema: Schema) -> Any:
    """Return jsonschema's validator of a schema, with patterns searched for in bounded time."""
    import attrs
    from jsonschema import validators
    from referencing import Registry

    drafts: Any = validators
    bounded = drafts.extend(_draft_of(schema), _KEYWORDS)
    # Listed once, because each part of each value that is checked has a validator.
    kept = [(field.name, field.alias) for field in attrs.fields(bounded) if field.init]

    def evolve(validator: Any, **changes: Any) -> Any:
        return bounded(**{alias: getattr(validator, name) for name, alias in kept} | changes)

    # By default each `$schema` that is met exchanges the class, and Python's `re` is back.
    bounded.evolve = evolve
    nothing_fetched: Registry[Any] = Registry()
    return bounded(schema, registry=nothing_fetched)


def _draft_of(schema: Schema) -> Any:
    from jsonschema import Draft202012Validator, validators

    named: Schema = schema if isinstance(schema.get("$schema"), str) else {}
    return cast("Any", validators).validator_for(named, default=Draft202012Validator)


def _unsearchable(schema: Schema) -> str | None:
    """Return which pattern of a schema cannot be searched for in bounded time, and why."""
    parts = _parts(schema)
    by_name = [name for part in parts for name in part.get("patternProperties", ())]
    if by_name and any("unevaluatedProperties" in part for part in parts):
        return "patternProperties does not go with unevaluatedProperties; leave one of them out"
    for pattern in (*by_name, *(part["pattern"] for part in parts if "pattern" in part)):
        try:
            _searcher(pattern)
        except ValueError as error:
            return (
                f"its pattern {pattern!r} cannot be searched for in bounded time ({error}); write "
                "it without look-around and back-references, or leave it out"
            )
    return None


def _pattern(_: Any, pattern: str, value: Any, _schema: Schema) -> Iterator[Any]:
    """Search for a pattern, in bounded time."""
    if isinstance(value, str) and not _searcher(pattern)(value):
        yield _fault(f"{value!r} does not match {pattern!r}")


def _by_pattern(validator: Any, wanted: Schema, value: Any, _: Schema) -> Iterator[Any]:
    for pattern, schema in wanted.items() if isinstance(value, dict) else ():
        for name in cast("dict[str, Any]", value):
            if _searcher(pattern)(name):
                yield from validator.descend(value[name], schema, path=name, schema_path=pattern)


def _additional(validator: Any, wanted: Any, value: Any, schema: Schema) -> Iterator[Any]:
    extras = _extras(value, schema)
    if extras and wanted is False:
        yield _fault("")
    for name in extras if isinstance(wanted, dict) else ():
        yield from validator.descend(value[name], wanted, path=name)


def _extras(value: Any, schema: Schema) -> list[str]:
    """Return the properties that neither a name nor a pattern of a schema covers."""
    named, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
    return [
        name
        for name in (cast("Schema", value) if isinstance(value, dict) else ())
        if name not in named and not any(_searcher(pattern)(name) for pattern in patterns)
    ]


def _multiple(_: Any, unit: float, value: Any, _schema: Schema) -> Iterator[Any]:
    """Compare numbers as JSON writes them: 0.1 is a tenth, and not the nearest binary fraction."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        quotient = Fraction(repr(value)) / Fraction(repr(unit))
        if quotient.denominator != 1:
            yield _fault(f"{value!r} is not a multiple of {unit}")


def _fault(told: str) -> Exception:
    from jsonschema import ValidationError

    return ValidationError(told)


@lru_cache(maxsize=1024)
def _searcher(pattern: str) -> Callable[[str], object]:
    return cast("Callable[[str], object]", bounded_ecma(pattern).search)


_KEYWORDS: Final = {
    "additionalProperties": _additional,
    "patternProperties": _by_pattern,
    "multipleOf": _multiple,
    "pattern": _pattern,
}


# --- Secrets


_NOT_FOLLOWED: Final = re.compile(
    r'"(if|then|else|dependentSchemas|dependencies|unevaluated\w+|additionalItems|contains'
    r'|\$(dynamicRef|recursiveRef|anchor|id))": |"items": \[|"\$ref": "(?!#["/])'
)
"""Keywords of a schema's JSON by which masking does not find its way."""
_WHOLE: Final[Schema] = {"writeOnly": True}


def secrecy_of(schema: Schema) -> Schema:
    """Return the schema that masking goes by: this one, an empty one, or one that hides all.

    Args:
        schema: The schema. Without a secret in it, there is nothing to mask; with one, and
            conditions or references that masking does not follow, anything may be secret.

    Example:
        >>> secrecy_of({"if": {}, "then": {"properties": {"pin": {"writeOnly": True}}}})
        {'writeOnly': True}
    """
    if not holds_secret(schema):
        return {}
    parts = {name: part for name, part in schema.items() if name != "$id"}
    if not _NOT_FOLLOWED.search(json.dumps(parts, default=str)):
        return schema
    # The names in an object say what became of the rest of it.
    return ALL_SECRET if schema.get("type") in ("object", "array") else _WHOLE

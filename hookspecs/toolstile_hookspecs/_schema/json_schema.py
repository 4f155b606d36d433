"""JSON Schemas as parsing really is: closed objects, with the authors' field descriptions."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import re
import textwrap
import threading
import typing
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final, cast, get_args, get_origin

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from toolstile_hookspecs._schema.core_schema import is_by_author
from toolstile_hookspecs._schema.navigation import ALL_SECRET, Schema, holds_secret
from toolstile_hookspecs._tools.function_params import argument_texts
from toolstile_hookspecs.support.patterns import bounded

_parsing = threading.Lock()
"""Held while a syntax tree is made: Python 3.11 raises when several threads make one at once."""


class PlainJsonSchema(GenerateJsonSchema):
    """Pydantic's generator, without its warning of defaults that JSON cannot say.

    It says of pydantic's `Secret[...]`, too, that it is secret.
    """

    def json_or_python_schema(self, schema: core_schema.JsonOrPythonSchema) -> JsonSchemaValue:
        """Mark what is kept from being written as JSON."""
        written = super().json_or_python_schema(schema)
        return {**written, "writeOnly": True} if _hides(schema) else written

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        """Describe what a serializer writes; an author's that does not say may write anything."""
        untold = "return_schema" not in schema and is_by_author(schema)
        return {} if untold else super().ser_schema(schema)

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Warn, but not of a default that JSON cannot say: the function has it all the same."""
        if kind != "non-serializable-default":
            super().emit_warning(kind, detail)


class ClosedJsonSchema(PlainJsonSchema):
    """Pydantic's generator, saying also what the codec enforces and the fields mean."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """Describe the fields of a dataclass and close it."""
        return self._close(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        """Describe the fields of a TypedDict and close it."""
        return self._close(super().typed_dict_schema(schema), schema.get("cls"))

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Describe the fields of a pydantic model and close it."""
        return self._close(super().model_schema(schema), schema["cls"])

    def _close(self, schema: JsonSchemaValue, kind: Any) -> JsonSchemaValue:
        properties = cast("dict[str, Any] | None", schema.get("properties"))
        if properties is None:
            return schema
        # What is read may have no other names; what is written may, where the type says so.
        if self.mode == "validation" or not schema.get("additionalProperties"):
            schema["additionalProperties"] = False
        if not isinstance(kind, type):
            return schema
        for name, text in field_descriptions(kind).items():
            if name in properties:
                cast("dict[str, Any]", properties[name]).setdefault("description", text)
        return schema


def _hides(schema: core_schema.JsonOrPythonSchema) -> bool:
    writing = cast("dict[str, Any]", schema.get("serialization") or {})
    function = writing.get("function")
    return (function.__module__, function.__qualname__) == _MASKING if function else False


_MASKING: Final = ("pydantic.types", "_serialize_secret")
"""The serializer that masks a `Secret[...]`; its schema has no other mark."""


@lru_cache(maxsize=1024)
def field_descriptions(kind: type) -> dict[str, str]:
    """Return what the author says of each field, the closest to it first.

    Text in `Annotated` (a string or `typing_extensions.Doc`), `description` in the field's
    metadata, a docstring below the field, an entry in the class's `Args:` or `Attributes:`.
    """
    found = argument_texts(kind.__doc__ or "")
    found.update(_attribute_docstrings(kind))
    found.update(_metadata_texts(kind))
    found.update(_annotated_texts(kind))
    return found


def _metadata_texts(kind: type) -> dict[str, str]:
    if not dataclasses.is_dataclass(kind):
        return {}
    texts = {each.name: each.metadata.get("description") for each in dataclasses.fields(kind)}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _annotated_texts(kind: type) -> dict[str, str]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - names that cannot be resolved describe nothing
        return {}
    found: dict[str, str] = {}
    for name, hint in hints.items():
        if get_origin(hint) is Annotated:
            for extra in get_args(hint)[1:]:
                text = extra if isinstance(extra, str) else getattr(extra, "documentation", None)
                if isinstance(text, str):
                    found[name] = text
    return found


def _attribute_docstrings(kind: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            source = textwrap.dedent(inspect.getsource(base))
            with _parsing:
                tree = ast.parse(source)
        except (OSError, TypeError, SyntaxError):
            continue
        if tree.body and isinstance(tree.body[0], ast.ClassDef):
            found.update(_docstrings_of(tree.body[0].body))
    return found


def _docstrings_of(body: list[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, text in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            found[field.target.id] = inspect.cleandoc(text.value.value)
    return found


# --- Keywords


def _pattern(validator: Any, pattern: str, instance: Any, schema: Schema) -> Iterator[Any]:  # noqa: ARG001 - as jsonschema calls it
    """Yield a fault where a text does not match a pattern; in bounded time, where RE2 takes it."""
    if validator.is_type(instance, "string") and not _searcher(pattern)(instance):
        from jsonschema import ValidationError

        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _required(validator: Any, names: Any, instance: Any, schema: Schema) -> Iterator[Any]:  # noqa: ARG001 - as jsonschema calls it
    """Yield a fault for each name that is missing, at the place where it should be."""
    # In the oldest draft it is a boolean, which others look at.
    if isinstance(names, list) and validator.is_type(instance, "object"):
        from jsonschema import ValidationError

        for name in cast("list[str]", names):
            if name not in instance:
                yield ValidationError(f"{name!r} is a required property", path=[name])


def _multiple(validator: Any, unit: float, instance: Any, schema: Schema) -> Iterator[Any]:  # noqa: ARG001 - as jsonschema calls it
    """Yield a fault where a number is no multiple of another, both as JSON writes them."""
    if validator.is_type(instance, "number") and (_exact(instance) / _exact(unit)).denominator != 1:
        from jsonschema import ValidationError

        yield ValidationError(f"{instance!r} is not a multiple of {unit}")


def _exact(number: Any) -> Fraction:
    # 0.1 is a tenth, and not the nearest to it that is a sum of powers of two.
    return Fraction(repr(number) if isinstance(number, float) else number)


def _unique(validator: Any, wanted: Any, instance: Any, schema: Schema) -> Iterator[Any]:  # noqa: ARG001 - as jsonschema calls it
    """Yield a fault where an item of an array is there twice; each is looked at once."""
    if wanted and validator.is_type(instance, "array"):
        from jsonschema import ValidationError

        seen: set[Hashable] = set()
        for each in cast("list[Any]", instance):
            if (frozen := _frozen(each)) in seen:
                yield ValidationError(f"{each!r} is there more than once")
                return
            seen.add(frozen)


def _frozen(value: Any) -> Hashable:
    """Return what can be hashed, and is equal for equal JSON values alone.

    1 and 1.0 are equal, 1 and true are not.
    """
    if isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return frozenset((name, _frozen(each)) for name, each in named.items())
    if isinstance(value, list):
        return tuple(_frozen(each) for each in cast("Sequence[Any]", value))
    return (bool, value) if isinstance(value, bool) else cast("Hashable", value)


@lru_cache(maxsize=1024)
def _searcher(pattern: str) -> Callable[[str], object]:
    try:
        return cast("Callable[[str], object]", bounded(pattern).search)
    except ValueError:
        return re.compile(pattern).search


KEYWORDS: Final = {
    "multipleOf": _multiple,
    "pattern": _pattern,
    "required": _required,
    "uniqueItems": _unique,
}
"""The check of each keyword, in the form of `jsonschema`."""


# --- Secrets of foreign schemas


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

"""Typed values to and from strict JSON, for the params and results of tools.

A `Codec` wraps the one `TypeAdapter` of a type, `NoParams` is for tools without params, and a
`SchemaCodec` wraps a JSON Schema. All decode strictly, naming every fault at once.
"""

# pyright: reportReturnType=false

from __future__ import annotations

import json
import re
import sys
import typing
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from math import inf, isfinite
from typing import Any, Final, NoReturn, Protocol, cast
from weakref import WeakValueDictionary

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import (
    GenerateJsonSchema,
    JsonSchemaMode,
    JsonSchemaValue,
    JsonSchemaWarningKind,
)
from pydantic_core import core_schema, from_json

from toolstile_hookspecs._schema.core_schema import (
    Extra,
    exact_validator,
    extra_of_results,
    hides,
    is_by_author,
    is_immutable,
    is_searched_by_python,
    why_not_read_back,
)
from toolstile_hookspecs._schema.json_schema import ALL_SECRET, Schema, holds_secret
from toolstile_hookspecs._schema.serialize import as_plain, finite, whole_serializer
from toolstile_hookspecs._schema.validation_errors import MAX_REASON, explain, shorten
from toolstile_hookspecs.errors import DefinitionError, ToolValidationError
from toolstile_hookspecs.support.caches import cached
from toolstile_hookspecs.support.callables import argument_texts

Json = str | bytes

NOT_READ_BACK: Final = "cannot be read from the JSON that it is written as"
_ALWAYS_FINITE: Final = frozenset({"int", "str", "bool", "none"})


class ValueCodec(Protocol):
    """Decodes and encodes the values of one type."""

    immutable: bool
    """True when values can be shared without a copy, because nothing in them can change."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the values; the caller owns the copy."""

    def secret_schema(self) -> Schema:
        """Return the schema if it marks a secret, else an empty one."""

    def decode(self, text: Json) -> Any:
        """Return the value that the JSON text stands for, or raise `ToolValidationError`."""

    def read(self, text: Json) -> tuple[Any, bytes]:
        """Return the value, as `decode` does, and its JSON, as `encode` does."""
        ...

    def copy(self, text: Json) -> Any:
        """Return the value of a text that was decoded before, as a copy of one's own."""

    def encode(self, value: object) -> bytes:
        """Return the value as compact JSON; raises `ValueError` when it has none."""

    def fits(self, value: object) -> str | None:
        """Return why the value is not one of these, or None when it is."""


class Codec:
    """The codec of a Python type.

    Args:
        type_: A dataclass, pydantic model, TypedDict or anything else pydantic can adapt.
        owner: The owner of the type, for error messages.
        reveals: Whether `encode` writes exactly the input of `decode`: secrets (pydantic's
            `SecretStr`) in clear, no computed fields. For params; results mask their secrets.

    Raises:
        DefinitionError: When pydantic cannot make a schema of the type, or params cannot be
            read from the JSON that they are written as.

    Example:
        >>> codec = Codec(dict[str, int], owner="demo")
        >>> codec.decode('{"a": 1}'), codec.encode({"a": 1})
        ({'a': 1}, b'{"a":1}')
    """

    def __init__(self, type_: Any, *, owner: str, reveals: bool = False) -> None:
        self._reveals = reveals
        try:
            self.adapter: TypeAdapter[Any] = TypeAdapter(type_)
            self._read = self.adapter.validator.validate_json
        except Exception as error:
            raise DefinitionError(_no_schema(owner, type_, error)) from error
        if reveals and (reason := self.why_not_read_back()):
            raise DefinitionError(f"{owner}: {describe(type_)} {NOT_READ_BACK}: {reason}.")
        if reveals and is_searched_by_python(self.adapter.core_schema):
            raise DefinitionError(
                f"{owner}: Python's re would search for a pattern of {describe(type_)}, which may "
                "take for ever; give it as text, without look-around and regex_engine."
            )
        self._extra: Extra = "forbid" if reveals else extra_of_results(self.adapter.core_schema)
        # Params are read exactly because models write them; results are made here.
        exact = exact_validator(self.adapter.core_schema) if reveals else None
        self._read = (exact or self.adapter.validator).validate_json
        self.immutable = is_immutable(self.adapter.core_schema)
        self._schema: dict[str, Any] | None = None
        self._secrecy: Schema | None = None
        serializer = self.adapter.serializer
        if reveals:
            whole = whole_serializer(self.adapter.core_schema) or serializer
            self._to_json: Callable[[object], bytes] = partial(
                whole.to_json, by_alias=True, round_trip=True, warnings=False
            )
        elif self.adapter.core_schema["type"] in _ALWAYS_FINITE:
            self._to_json = partial(serializer.to_json, by_alias=True, warnings=False)
        else:
            self._to_json = self._write_finite

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the input for params, of the output for results."""
        mode: JsonSchemaMode = "validation" if self._reveals else "serialization"
        return self.adapter.json_schema(mode=mode, schema_generator=ClosedJsonSchema)

    def why_not_read_back(self) -> str | None:
        """Return why values cannot be read from their own JSON, and the remedy, or None."""
        return why_not_read_back(self.adapter.core_schema, of_params=self._reveals)

    def decode(self, text: Json) -> Any:
        """Return the typed value; every fault in one `ToolValidationError`."""
        value = self._typed(text)
        holds_whole_floats(text, from_json(text))
        return value

    def read(self, text: Json) -> tuple[Any, bytes]:
        """Return the typed value, and its JSON; every fault in one `ToolValidationError`."""
        value = self._typed(text)
        written = self.encode(value)
        # A text that the value is written as, apart from spaces, gives no name twice.
        plain = text if isinstance(text, str) else text.decode()
        if plain.replace(", ", ",").replace(": ", ":") != written.decode():
            holds_whole_floats(text, from_json(text))
        return value, written

    def _typed(self, text: Json) -> Any:
        try:
            return self._read(text, strict=True, extra=self._extra)
        except ValidationError:
            try:
                return self._read(with_whole_numbers(text), strict=True, extra=self._extra)
            except ValidationError as error:
                raise ToolValidationError(explain(error, self._known_schema)) from None

    def copy(self, text: Json) -> Any:
        """Return another typed value of a text that was decoded before."""
        return self._read(text, strict=True, extra=self._extra)

    def encode(self, value: object) -> bytes:
        """Return the value as compact JSON, in the order of its fields; sets of params are sorted.

        Raises:
            ValueError: When it has none, such as NaN in a result.
        """
        return self._to_json(value)

    def fits(self, value: object) -> str | None:
        """Return why the value is not of the type, or None when it is."""
        try:
            self.adapter.validate_python(value, strict=True)
            # An instance of the right class may hold anything; writing it tells.
            self.adapter.serializer.to_json(value, warnings="error")
        except ValidationError as error:
            return explain(error, self._known_schema)
        except (ValueError, UserWarning) as error:
            # Reading the written value gives a better message, if it can be written.
            try:
                self.copy(self.encode(value))
            except ValidationError as misread:
                return explain(misread, self._known_schema)
            except ValueError:
                pass
            return shorten(" ".join(str(error).split()), MAX_REASON)
        return None

    def secret_schema(self) -> Schema:
        """Return the schema if it marks a secret, else an empty one.

        If JSON Schema cannot express the type, everything counts as secret.
        """
        if self._secrecy is None:
            modes: tuple[JsonSchemaMode, ...] = ("validation", "serialization")
            try:
                # Computed fields are written only.
                parts, definitions = TypeAdapter.json_schemas(
                    [(mode, mode, self.adapter) for mode in modes], schema_generator=PlainJsonSchema
                )
                schema = {"allOf": [*parts.values()], **definitions}
                self._secrecy = schema if holds_secret(schema) else {}
            except PydanticUserError:
                self._secrecy = ALL_SECRET
        return self._secrecy

    def _known_schema(self) -> dict[str, Any]:
        if self._schema is None:
            try:
                self._schema = self.schema()
            except PydanticUserError:  # a type that JSON Schema cannot say
                self._schema = {}
        return self._schema

    def _write_finite(self, value: object) -> bytes:
        serializer = self.adapter.serializer
        text = serializer.to_json(value, by_alias=True, warnings=False, fallback=as_plain)
        return finite(text, lambda: serializer.to_python(value, warnings=False))


_MADE: Final[WeakValueDictionary[tuple[type[Any], bool], Codec]] = WeakValueDictionary()
"""The codecs of classes that a running program makes, as long as something uses them."""


def codec_of(type_: Any, *, owner: str, reveals: bool = False) -> Codec:
    """Return the codec of a type, cached per class, since it is expensive to make.

    Only classes are shared. Other types may be equal and read differently, as unions of the same
    members in another order do.

    Args:
        type_: The type, see `Codec`.
        owner: What the type belongs to, for error messages.
        reveals: Whether all that is written can be read, see `Codec`.

    Raises:
        DefinitionError: See `Codec`.
    """
    if not isinstance(type_, type):
        return Codec(type_, owner=owner, reveals=reveals)
    class_: type[Any] = type_
    home = sys.modules.get(class_.__module__)
    if getattr(home, class_.__qualname__, None) is class_:
        with suppress(DefinitionError):  # is raised again below, with the owner
            return _codec_of_class(class_, reveals)
    codec = _MADE.get((type_, reveals))
    if codec is None:
        codec = _MADE[type_, reveals] = Codec(type_, owner=owner, reveals=reveals)
    return codec


@cached(1024)
def _codec_of_class(type_: type[Any], reveals: bool) -> Codec:  # noqa: FBT001 - a key
    return Codec(type_, owner="", reveals=reveals)


def _no_schema(owner: str, type_: object, error: Exception) -> str:
    # Pydantic's advice follows; the remedy is ours.
    told = str(error).partition("\n")[0].partition(" Set `")[0].rstrip(".")
    reason = told or type(error).__name__
    code = error.code if isinstance(error, PydanticUserError) else None
    if code == "typed-dict-version":
        remedy = "Before Python 3.12, import TypedDict from typing_extensions, not from typing."
    elif code in {"class-not-fully-defined", "undefined-annotation"}:
        remedy = "Define the types it names at the top level of a module, before the tool."
    else:
        remedy = "Use a dataclass, a pydantic model, a TypedDict or plain JSON types."
    return f"{owner}: no JSON schema can be made of {describe(type_)} ({reason}). {remedy}"


@dataclass(frozen=True)
class _Empty:
    pass


class NoParams(Codec):
    """The codec of a tool without params: an empty object, and None in the process."""

    def __init__(self) -> None:
        super().__init__(_Empty, owner="a tool without params", reveals=True)

    def schema(self) -> dict[str, Any]:
        """Return the schema of an empty object."""
        return {"type": "object", "properties": {}, "additionalProperties": False}

    def decode(self, text: Json) -> None:
        """Return None for an empty object, refuse anything else."""
        super().decode(text)

    def read(self, text: Json) -> tuple[None, bytes]:
        """Return None and an empty object for one, refuse anything else."""
        return None, super().read(text)[1]

    def copy(self, text: Json) -> None:
        """Return None."""

    def encode(self, value: object) -> bytes:  # noqa: ARG002 - as the others
        """Return an empty object."""
        return b"{}"

    def fits(self, value: object) -> str | None:
        """Return why the value is not None, or None."""
        return None if value is None else "the tool takes no params; give None"


def describe(type_: object) -> str:
    """Return a type's name as a person would write it."""
    return type_.__qualname__ if isinstance(type_, type) else str(type_).removeprefix("typing.")


_MAX_INTEGER: Final = 2**63
_NUMBER: Final = re.compile(
    r'"(?:[^"\\]|\\.)*+"'  # a text, whose digits are not numbers
    r"|(?<![\w.+-])-?(?:0|[1-9][0-9]*)(?:\.0+|(?:\.[0-9]+)?[eE][+-]?[0-9]{1,3})(?![\w.+-])"
)


def with_whole_numbers(text: Json) -> str:
    """Return JSON with whole numbers as integers: to JSON Schema, 3.0 is one."""
    return _NUMBER.sub(
        _as_integer, text if isinstance(text, str) else text.decode(errors="surrogateescape")
    )


def _as_integer(found: re.Match[str]) -> str:
    if found[0].startswith('"'):
        return found[0]
    number = Decimal(found[0])
    is_whole = -_MAX_INTEGER < number < _MAX_INTEGER and number == int(number)
    return str(int(number)) if is_whole else found[0]


# --- Strict JSON: RFC 8259, sections 4 (unique names) and 6 (finite numbers)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ToolValidationError(
                f"Invalid arguments: the name {shorten(name)!r} is given twice in one object. "
                "Give it once, then retry."
            )
        seen.add(name)


def _refuse_constant(name: str) -> NoReturn:
    raise ToolValidationError(
        f"Invalid arguments: {name} is not JSON. Give a finite number, then retry."
    )


def _refuse_infinite(digits: str) -> None:
    if abs(float(digits)) == inf:
        raise ToolValidationError(
            f"Invalid arguments: the number {shorten(digits, 20)} is out of range. "
            "Give a smaller one, or a string where one is allowed, then retry."
        )


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_refuse_infinite,
)


def holds_whole_floats(text: Json, value: object) -> bool:
    """Tell whether a number of JSON, read as a plain value, is a whole float, such as 3.0.

    Raises:
        ToolValidationError: For a name twice in one object, NaN, an infinity, or a number out of
            range such as `1e999`.
    """
    members, whole, is_strict = 0, False, True
    parts: list[Any] = [value]
    for part in parts:
        kind: Any = part.__class__
        if kind is dict:
            members += len(part)
            parts += part.values()
        elif kind is list:
            parts += part
        elif kind is float:
            whole = whole or part.is_integer()
            is_strict = is_strict and isfinite(part)
    # Each member is written with a colon. If there are more, some are in texts, or a name is twice.
    plain = text if isinstance(text, str) else text.decode()
    if not is_strict or members != plain.count(":"):
        _STRICT.decode(plain)
    return whole


class PlainJsonSchema(GenerateJsonSchema):
    """Pydantic's generator, without its warning of defaults that JSON cannot say.

    It says of pydantic's `Secret[...]`, too, that it is secret.
    """

    def json_or_python_schema(self, schema: core_schema.JsonOrPythonSchema) -> JsonSchemaValue:
        """Mark secrets."""
        written = super().json_or_python_schema(schema)
        return {**written, "writeOnly": True} if hides(cast("Any", schema)) else written

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        """Describe the output of a serializer: anything, if an author's has no schema."""
        untold = "return_schema" not in schema and is_by_author(schema)
        return {} if untold else super().ser_schema(schema)

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Warn, but not of a default that JSON cannot say: the function has it all the same."""
        if kind != "non-serializable-default":
            super().emit_warning(kind, detail)


class ClosedJsonSchema(PlainJsonSchema):
    """Pydantic's generator, with the codec's rules and the descriptions of fields."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """Describe the fields of a dataclass and close it."""
        return self._close(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        """Describe the fields of a TypedDict and close it."""
        return self._close(super().typed_dict_schema(schema), schema.get("cls"))

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Describe the fields of a pydantic model and close it."""
        return self._close(super().model_schema(schema), schema["cls"])

    def _close(self, schema: JsonSchemaValue, cls: Any) -> JsonSchemaValue:
        properties = cast("dict[str, Any] | None", schema.get("properties"))
        if properties is None:
            return schema
        # Input has no other names; output may, if the type allows it.
        if self.mode == "validation" or not schema.get("additionalProperties"):
            schema["additionalProperties"] = False
        if not isinstance(cls, type):
            return schema
        for name, text in field_descriptions(cls).items():
            if name in properties:
                cast("dict[str, Any]", properties[name]).setdefault("description", text)
        return schema


@lru_cache(maxsize=1024)
def field_descriptions(cls: type) -> dict[str, str]:
    """Return the author's description of each field.

    Text in `Annotated` (a string or `typing_extensions.Doc`) comes before the class's docstring,
    and that before one below the field.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        found |= argument_texts(base)
    hints: dict[str, Any] = {}
    with suppress(Exception):  # names that cannot be resolved describe nothing
        hints = typing.get_type_hints(cls, include_extras=True)
    for name, hint in hints.items():
        extras: tuple[object, ...] = getattr(hint, "__metadata__", ())
        for extra in reversed(extras):  # the first counts
            text = extra if isinstance(extra, str) else getattr(extra, "documentation", None)
            if isinstance(text, str):
                found[name] = text
    return found

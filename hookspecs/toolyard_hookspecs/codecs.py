"""Typed values to and from strict JSON: what a tool's params and results go through.

A `Codec` wraps the one `TypeAdapter` of a type; a `SchemaCodec` a JSON Schema that came
from elsewhere. Both decode bytes strictly, naming every fault at once, and encode once.

Sources of the rules: RFC 8259 (JSON has no NaN, no duplicate names worth trusting);
JSON Schema 2020-12 for the schemas.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn, Protocol, cast

import pydantic_core
from pydantic import TypeAdapter, ValidationError

from toolyard_hookspecs.errors import DefinitionError, ToolValidationError
from toolyard_hookspecs.immutable import is_immutable_type
from toolyard_hookspecs.schemas import ClosedJsonSchema

Json = str | bytes
MAX_FAULTS: Final = 20
MAX_SHOWN: Final = 80


class ValueCodec(Protocol):
    """Decodes and encodes the values of one type."""

    immutable: bool
    """Whether values can be shared without a copy, because nothing in them can change."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the values; the caller owns the copy."""
        ...

    def decode(self, text: Json) -> Any:  # noqa: ANN401 - the type is only known at run time
        """Return the value that the JSON text stands for, or raise `ToolValidationError`."""
        ...

    def encode(self, value: object) -> bytes:
        """Return the value as compact JSON; raises `ValueError` when it has none."""
        ...


class Codec:
    """The codec of a Python type.

    Args:
        kind: A dataclass, pydantic model, TypedDict or anything else pydantic can adapt.
        owner: What the type belongs to, for error messages.

    Raises:
        DefinitionError: When pydantic cannot make a schema of the type.
    """

    __slots__ = ("_fields", "_serializer", "_validate", "adapter", "immutable", "kind")

    def __init__(self, kind: Any, *, owner: str) -> None:  # noqa: ANN401 - any annotation
        self.kind = kind
        try:
            self.adapter: TypeAdapter[Any] = TypeAdapter(kind)
        except Exception as error:
            reason = str(error).splitlines()[0]
            msg = (
                f"{owner}: no JSON schema can be made of {describe(kind)} ({reason}). "
                "Use a dataclass, a pydantic model, a TypedDict or plain JSON types."
            )
            raise DefinitionError(msg) from error
        self._validate = self.adapter.validator.validate_json
        self._serializer = self.adapter.serializer.to_json
        self.immutable = is_immutable_type(kind)
        self._fields: tuple[str, ...] | None = None

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the type, as validation sees it."""
        return self.adapter.json_schema(mode="validation", schema_generator=ClosedJsonSchema)

    def decode(self, text: Json) -> Any:  # noqa: ANN401
        """Return the typed value; every fault in one `ToolValidationError`."""
        try:
            value = self._validate(text, strict=True, extra="forbid")
        except ValidationError as error:
            raise ToolValidationError(_explain(error, self._known)) from None
        check_names(text)
        return value

    def encode(self, value: object) -> bytes:
        """Return the value as compact JSON, in the order of its fields."""
        return self._serializer(value, warnings=False)

    def fits(self, value: object) -> str | None:
        """Return why the value is not of the type, or None when it is."""
        try:
            self.adapter.validate_python(value, strict=True)
        except ValidationError as error:
            return _explain(error, self._known)
        return None

    def _known(self) -> tuple[str, ...]:
        if self._fields is None:
            self._fields = tuple(self.schema().get("properties", ()))
        return self._fields


class SchemaCodec:
    """The codec of a JSON Schema that came from elsewhere; values are plain JSON objects.

    Validation is `jsonschema`'s, the reference of its field; references to other
    documents are never fetched.

    Args:
        schema: The schema, draft 2020-12 unless it says otherwise.
        owner: What the schema belongs to, for error messages.

    Raises:
        DefinitionError: When the schema itself is wrong.
    """

    __slots__ = ("_schema", "_validator", "immutable")

    def __init__(self, schema: Mapping[str, Any], *, owner: str) -> None:
        import jsonschema  # noqa: PLC0415 - heavy, and most tools are typed
        import referencing  # noqa: PLC0415

        self._schema = dict(schema)
        self.immutable = False
        kind = jsonschema.validators.validator_for(
            self._schema, default=jsonschema.Draft202012Validator
        )
        try:
            kind.check_schema(self._schema)
        except jsonschema.SchemaError as error:
            msg = f"{owner}: its JSON Schema is not valid at {error.json_path}: {error.message}"
            raise DefinitionError(msg) from error
        self._validator = kind(self._schema, registry=referencing.Registry())

    def schema(self) -> dict[str, Any]:
        """Return a copy of the schema."""
        return cast("dict[str, Any]", json.loads(json.dumps(self._schema)))

    def decode(self, text: Json) -> Any:  # noqa: ANN401
        """Return the JSON value; every fault in one `ToolValidationError`."""
        try:
            value = pydantic_core.from_json(text, allow_inf_nan=False)
        except ValueError as error:
            msg = f"Invalid arguments: not valid JSON ({_shorten(str(error))}). Mend it, then retry."
            raise ToolValidationError(msg) from None
        check_names(text)
        faults = sorted(self._validator.iter_errors(value), key=lambda each: each.json_path)
        if faults:
            lines = [f"{_place(each.absolute_path)}: {_shorten(each.message)}" for each in faults]
            raise ToolValidationError(listing(lines))
        return value

    def encode(self, value: object) -> bytes:
        """Return the value as compact JSON."""
        return pydantic_core.to_json(value)


def check_names(text: Json) -> None:
    """Refuse JSON that strict readers refuse: a name twice in one object, NaN, Infinity.

    A cheap count tells most texts apart: as many colons as names means no name is lost.
    """
    if isinstance(text, bytes):
        colons, odd = text.count(b":"), b"NaN" in text or b"Infinity" in text
    else:
        colons, odd = text.count(":"), "NaN" in text or "Infinity" in text
    if not odd and (colons < 2 or _count_names(pydantic_core.from_json(text)) == colons):  # noqa: PLR2004
        return
    _STRICT.decode(text.decode() if isinstance(text, bytes) else text)


def _count_names(value: Any) -> int:  # noqa: ANN401
    if value.__class__ is dict:
        count = len(value)
        value = value.values()
    elif value.__class__ is list:
        count = 0
    else:
        return 0
    for each in value:
        if each.__class__ is dict or each.__class__ is list:
            count += _count_names(each)
    return count


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            msg = f"Invalid arguments: the name {_shorten(name)!r} is given twice. Give it once, then retry."
            raise ToolValidationError(msg)
        seen.add(name)


def _refuse_constant(name: str) -> NoReturn:
    msg = f"Invalid arguments: {name} is not JSON. Give a finite number, then retry."
    raise ToolValidationError(msg)


_STRICT = json.JSONDecoder(object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)


def _explain(error: ValidationError, known: Any) -> str:  # noqa: ANN401
    lines: list[str] = []
    for fault in error.errors(include_url=False, include_context=False):
        kind, place = fault["type"], _place(fault["loc"])
        if kind == "json_invalid" or (kind == "string_unicode" and not fault["loc"]):
            reason = _shorten(fault["msg"].removeprefix("Invalid JSON: "))
            return f"Invalid arguments: not valid JSON ({reason}). Mend it, then retry."
        if kind in {"missing", "missing_argument"}:
            lines.append(f"{place}: required, but missing")
        elif kind in {"extra_forbidden", "unexpected_keyword_argument"}:
            near = suggest(str(fault["loc"][-1]), known()) if len(fault["loc"]) == 1 else ""
            lines.append(f"{place}: not known{near}")
        else:
            lines.append(f"{place}: {_reason(fault['msg'])}{_given(fault['input'])}")
    return listing(lines)


def _reason(text: str) -> str:
    return _shorten(text[0].lower() + text[1:] if text else text)


def _given(value: object) -> str:
    if value is None or isinstance(value, (bool, int, float, str)):
        return f", got {_shorten(json.dumps(value))}"
    if isinstance(value, Mapping):
        return ", got an object"
    if isinstance(value, (list, tuple)):
        return ", got an array"
    return ""


def _place(path: Iterable[object]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{_shorten(str(part))}"
    return text.removeprefix(".") or "arguments"


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"


def listing(faults: list[str]) -> str:
    """Return the message that names all faults of one call's arguments."""
    shown = [f"  - {fault}" for fault in faults[:MAX_FAULTS]]
    if len(faults) > MAX_FAULTS:
        shown.append(f"  - and {len(faults) - MAX_FAULTS} more")
    return "\n".join(["Invalid arguments:", *shown, "Mend these, then retry."])


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest known name, or nothing."""
    near = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def describe(kind: object) -> str:
    """Return a type's name as a person would write it."""
    return kind.__qualname__ if isinstance(kind, type) else str(kind).removeprefix("typing.")

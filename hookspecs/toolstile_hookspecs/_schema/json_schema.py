"""JSON Schemas as parsing really is: closed objects, with the authors' field descriptions."""

from __future__ import annotations

import typing
from functools import lru_cache
from typing import Any, cast

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from toolstile_hookspecs._schema.core_schema import hides, is_by_author
from toolstile_hookspecs.support.callables import argument_texts


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
    return found | _annotated_texts(cls)


def _annotated_texts(cls: type) -> dict[str, str]:
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001 - names that cannot be resolved describe nothing
        return {}
    found: dict[str, str] = {}
    for name, hint in hints.items():
        for extra in getattr(hint, "__metadata__", ()):
            text = extra if isinstance(extra, str) else getattr(extra, "documentation", None)
            if isinstance(text, str):
                found.setdefault(name, text)
    return found

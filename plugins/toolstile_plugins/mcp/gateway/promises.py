"""The check of a structured result against its server's schema, in bounded time."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.client.session import ClientSession

from toolstile_hookspecs import DefinitionError, ToolValidationError
from toolstile_hookspecs._schema.schema_codec import SchemaCodec, Unchecked
from toolstile_hookspecs._schema.validation_errors import in_one_line
from toolstile_plugins.mcp.gateway.definitions import Definition, Schema
from toolstile_plugins.mcp.gateway.schemas import enforceable


class Promises:
    """Holds results against the schemas that a server gives of them.

    What cannot be checked in bounded time is not, nor is anything by a schema that is none.
    """

    def __init__(self) -> None:
        self._codecs: dict[str, tuple[str, SchemaCodec | None]] = {}

    def broken(self, definition: Definition, result: types.CallToolResult) -> str | None:
        """Return how a result is not what was promised, None where it is."""
        if definition.output_schema is None or result.is_error:
            return None
        if "structured_content" not in result.model_fields_set:
            return "it promises a structured result, and gave none"
        codec = self._codec(definition, definition.output_schema)
        if codec is None:
            return None
        try:
            codec.decode(codec.encode(result.structured_content))
        except Unchecked:
            return None
        except ToolValidationError as error:
            return in_one_line(error)
        return None

    def _codec(self, definition: Definition, schema: Schema) -> SchemaCodec | None:
        digest, codec = self._codecs.get(definition.name, ("", None))
        if digest != definition.digest:
            codec = _made(definition.name, schema)
            self._codecs[definition.name] = definition.digest, codec
        return codec


def check_nothing(session: ClientSession) -> None:
    """Have the SDK hold no result against its schema: its patterns may search for ever."""

    async def pass_over(name: str, result: Any) -> None:
        """Do nothing."""

    session.validate_tool_result = pass_over  # type: ignore[method-assign]


def _made(name: str, schema: Schema) -> SchemaCodec | None:
    try:
        return SchemaCodec(enforceable(schema), owner=name)
    except (DefinitionError, RecursionError):
        return None

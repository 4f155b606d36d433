"""The JSON Schema that Gemini takes: without references, and with enumerations for constants."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given

from toolstile_hookspecs import Tool, ToolResult
from toolstile_plugins.dialects import Gemini
from toolstile_plugins.dialects.json_schema import walk


def parameters(tool: Tool[Any, Any]) -> dict[str, Any] | None:
    (entry,) = Gemini().schemas([tool])
    (declaration,) = entry["functionDeclarations"]
    return declaration.get("parametersJsonSchema")


def of_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    return parameters(
        Tool[Any, None](
            name="act",
            description="Act.",
            handler=lambda params, *, context: ToolResult.ok(),
            params_schema=schema,
        )
    )


@pytest.mark.slow
def test_of_random_types_what_fits_still_fits(schemas_and_values, fits):
    @given(schemas_and_values)
    def check(drawn):
        schema, value = drawn
        before = copy.deepcopy(schema)
        converted = of_schema(schema)
        assert schema == before
        if converted is None:
            assert not schema["properties"]
        else:
            assert not any({"$ref", "const"} & part.keys() for part in walk(converted))
            assert fits(converted, value)

    check()


@dataclass(frozen=True)
class Shape:
    name: Literal["circle"]
    size: Literal["small", "large"] = "small"
    within: tuple[Shape, ...] = ()


def draw(params: Shape, *, context: object) -> ToolResult[None]:
    return ToolResult.ok()


def test_constants_are_enumerations_and_what_refers_to_itself_ends():
    shown = parameters(Tool[Shape, None](name="draw", description="Draw.", handler=draw))
    assert shown is not None
    assert shown["properties"]["name"] == {"enum": ["circle"], "title": "Name", "type": "string"}
    assert shown["properties"]["size"]["enum"] == ["small", "large"]
    inner = shown["properties"]["within"]["items"]["properties"]["within"]["items"]
    assert inner == {"type": "object", "description": "Another Shape, of the same shape."}


def test_a_tool_without_params_has_no_parameters():
    assert of_schema({"type": "object", "properties": {}, "additionalProperties": False}) is None

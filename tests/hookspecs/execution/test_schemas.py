"""The neutral schema of tools and prompts has what every dialect begins with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile_hookspecs import (
    DefinitionError,
    MarkdownSection,
    Prompt,
    PromptSchema,
    Tool,
    ToolExample,
    ToolResult,
    ToolSchema,
    Visibility,
)


@dataclass(frozen=True)
class Adding:
    """The params."""

    a: int
    b: int = 1


def add(params: Adding, *, context: Any) -> ToolResult[int]:
    return ToolResult.ok(params.a + params.b)


ADD = Tool[Adding, int](
    name="add",
    description="Add.",
    long_description="Add two integers.",
    handler=add,
    examples=(ToolExample("Add 1 and 2.", Adding(1, 2), 3),),
)


def test_a_tool_is_its_name_description_parameters_and_examples() -> None:
    schema = ToolSchema.of(ADD)
    assert (schema.name, schema.description) == ("add", "Add two integers.")
    assert schema.parameters["required"] == ["a"]
    assert schema.parameters["properties"]["b"]["default"] == 1
    assert schema.examples == (("Add 1 and 2.", {"a": 1, "b": 2}),)


def test_a_prompt_is_its_text_and_the_tools_that_can_be_called_now() -> None:
    closed = MarkdownSection(
        key="b", title="B", tools=[ADD], visibility=Visibility.SUMMARY, summary="More."
    )
    prompt = Prompt.of("demo", "main", [closed])
    schema = PromptSchema.of(prompt)
    assert schema.text == prompt.render().text
    assert [tool.name for tool in schema.tools] == [tool.name for tool in prompt.tools()]
    assert "add" not in {tool.name for tool in schema.tools}


def test_params_without_a_schema_are_an_error_that_says_what_to_do() -> None:
    def call(params: Callable[[], int], *, context: Any) -> ToolResult[int]:
        return ToolResult.ok(params())

    tool = Tool[Callable[[], int], int](name="call", description="Call.", handler=call)
    with pytest.raises(DefinitionError, match="have no JSON Schema"):
        ToolSchema.of(tool)

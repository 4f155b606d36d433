"""The lists of the server: tools, prompts, instructions."""

from __future__ import annotations

import jsonschema
import pytest
from mcp.shared.exceptions import MCPError

pytestmark = [pytest.mark.anyio, pytest.mark.long_if(transport="stdio", mode="legacy")]


@pytest.mark.slow
async def test_tools_come_in_one_order_with_all_that_is_known_of_them(connect):
    async with connect() as client:
        first = (await client.list_tools()).tools
        second = (await client.list_tools()).tools
    assert [each.name for each in first] == [each.name for each in second]
    add = next(each for each in first if each.name == "add")
    assert (add.title, add.description) == ("Add", "Add two integers.")
    assert add.annotations is not None
    assert add.annotations.read_only_hint is True
    assert add.input_schema["required"] == ["a", "b"]
    for each in first:
        jsonschema.Draft202012Validator.check_schema(each.input_schema)
        jsonschema.Draft202012Validator.check_schema(each.output_schema or {})


@pytest.mark.slow
async def test_sections_are_prompts_and_their_placeholders_arguments(connect):
    async with connect() as client:
        prompts = {each.name: each for each in (await client.list_prompts()).prompts}
        greeting = await client.get_prompt("greeting", {"name": "Ada", "language": "French"})
        with pytest.raises(MCPError, match="needs: language"):
            await client.get_prompt("greeting", {"name": "Ada"})
        with pytest.raises(MCPError, match="The prompt 'nothing' is unknown"):
            await client.get_prompt("nothing")
    arguments = prompts["greeting"].arguments
    assert arguments is not None
    assert [(each.name, each.required) for each in arguments] == [
        ("name", True),
        ("language", True),
    ]
    assert greeting.messages[0].content.text == "# Greeting\n\nGreet Ada in French."
    assert "toolstile:default" in prompts


async def test_the_prompt_is_the_instructions(connect):
    async with connect() as client:
        instructions = client.instructions
    assert instructions is not None
    assert "# Desk\n\nUse add to add." in instructions
    # It cannot be told without its arguments.
    assert "# Greeting" not in instructions

"""The descriptions of tools that clients get."""

from __future__ import annotations

import logging
from dataclasses import replace

from toolstile import Host
from toolstile_hookspecs import MarkdownSection, hookimpl, tool
from toolstile_plugins.mcp.server.tools import PromptList, ToolList


@tool(category="read")
def add(a: int) -> int:
    """Add one."""
    return a + 1


@tool(category="read")
def name_of(kind: type) -> str:
    """Name a type."""
    return kind.__name__


class Desk:
    """A plugin."""

    @hookimpl
    def toolstile_sections(self):
        return [MarkdownSection(key="desk", title="Desk", tools=[name_of, add])]


def test_a_tool_whose_params_have_no_json_schema_is_left_out_and_logged_once(caplog) -> None:
    with (
        caplog.at_level(logging.WARNING, "toolstile.mcp"),
        Host(discover=["dialects"], plugins=[Desk()]) as host,
    ):
        tools = ToolList(host)
        for _ in range(2):
            assert [each["name"] for each in tools.page(None, None)["tools"]] == ["add"]
        assert tools.input_schema("name_of") is None
        assert tools.input_schema("add") is not None

    (warning,) = caplog.messages
    assert warning.startswith("name_of is left out of the list of tools: its params have no")


class Crowd:
    """A plugin with more tools and sections than a page used to have."""

    @hookimpl
    def toolstile_sections(self):
        many = [replace(add, name=f"add_{number}") for number in range(500)]
        yield MarkdownSection(key="desk", title="Desk", tools=many)
        for number in range(200):
            yield MarkdownSection(key=f"other_{number}", title="Other")


def test_all_tools_and_prompts_stand_on_the_first_page() -> None:
    """Many clients read no other one."""
    with Host(discover=["dialects"], plugins=[Crowd()]) as host:
        tools, prompts = ToolList(host).page(None, None), PromptList(host).page(None, None)
    assert len(tools.pop("tools")) == 500
    assert len(prompts.pop("prompts")) == 202
    assert tools == prompts == {}

"""What clients are told of tools."""

from __future__ import annotations

import logging

from toolstile import Host
from toolstile_hookspecs import MarkdownSection, hookimpl, tool
from toolstile_plugins.mcp.server.tools import ToolList


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
        tools = ToolList(host, 10)
        for _ in range(2):
            assert [each["name"] for each in tools.page(None, None)["tools"]] == ["add"]
        assert tools.input_schema("name_of") is None
        assert tools.input_schema("add") is not None

    (warning,) = caplog.messages
    assert warning.startswith("name_of is left out of the list of tools: its params have no")

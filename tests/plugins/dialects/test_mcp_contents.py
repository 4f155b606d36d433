"""Images, audio and resources as content blocks of MCP."""

from __future__ import annotations

import mcp_types

from toolstile_hookspecs import (
    AudioContent,
    Contents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolResult,
)
from toolstile_plugins.dialects.mcp import Mcp

ALL = Contents(
    (
        TextContent("A dot:", annotations={"audience": ["user"]}),
        ImageContent("iVBORw==", "image/png"),
        AudioContent("UklGRg==", "audio/wav"),
        EmbeddedResource("test://a", text="hello", mime_type="text/plain"),
        EmbeddedResource("test://b", blob="AAEC"),
        ResourceLink("test://c", "c", title="C", size=3),
    )
)


def _answered(make_tool, outcome, value: Contents, message: str = ""):
    tool = make_tool(result=Contents)
    data = tool.result_codec.encode(value)
    (result,) = Mcp().results([outcome(ToolResult.ok(value, message), tool=tool, data=data)])
    return result


def test_contents_become_blocks_in_order(make_tool, outcome):
    assert _answered(make_tool, outcome, ALL) == {
        "content": [
            {"type": "text", "text": "A dot:", "annotations": {"audience": ["user"]}},
            {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
            {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
            {
                "type": "resource",
                "resource": {"uri": "test://a", "mimeType": "text/plain", "text": "hello"},
            },
            {"type": "resource", "resource": {"uri": "test://b", "blob": "AAEC"}},
            {"type": "resource_link", "uri": "test://c", "name": "c", "title": "C", "size": 3},
        ],
        "isError": False,
    }


def test_the_official_types_take_them(make_tool, outcome):
    shape = _answered(make_tool, outcome, ALL)
    read = mcp_types.CallToolResult.model_validate(shape)
    assert [block.type for block in read.content] == [part.type for part in ALL.parts]


def test_the_message_comes_first(make_tool, outcome):
    shape = _answered(make_tool, outcome, Contents((TextContent("there"),)), "Hello.")
    assert [block["text"] for block in shape["content"]] == ["Hello.", "there"]


def test_a_structured_copy_goes_along(make_tool, outcome):
    value = Contents((TextContent("3"),), structured={"sum": 3})
    assert _answered(make_tool, outcome, value)["structuredContent"] == {"sum": 3}


def test_a_tool_that_gives_contents_declares_no_output_schema(make_tool):
    assert "outputSchema" not in Mcp().schemas([make_tool(result=Contents)])[0]


def test_what_has_no_blocks_tells_of_them():
    assert ALL.render().split("\n") == [
        "A dot:",
        "[image: image/png, 4 bytes]",
        "[audio: audio/wav, 4 bytes]",
        "[resource: test://a]",
        "hello",
        "[resource: test://b, 3 bytes]",
        "[link: C at test://c]",
    ]

"""A plugin that offers what the official conformance suite asks a server for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from toolstile_hookspecs import (
    AudioContent,
    Contents,
    EmbeddedResource,
    ImageContent,
    MarkdownSection,
    TextContent,
    Tool,
    ToolContext,
    ToolResult,
    ToolValidationError,
    hookimpl,
    tool,
)

PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dw"
    "HwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SILENCE: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="


@tool(category="read")
def test_simple_text() -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@tool(category="read")
def test_image_content() -> Contents:
    """Answer with an image."""
    return Contents((ImageContent(PIXEL, "image/png"),))


@tool(category="read")
def test_audio_content() -> Contents:
    """Answer with a recording."""
    return Contents((AudioContent(SILENCE, "audio/wav"),))


@tool(category="read")
def test_embedded_resource() -> Contents:
    """Answer with a resource."""
    text = "This is an embedded resource content."
    return Contents(
        (EmbeddedResource("test://embedded-resource", text=text, mime_type="text/plain"),)
    )


@tool(category="read")
def test_multiple_content_types() -> Contents:
    """Answer with contents of several kinds."""
    resource = EmbeddedResource(
        "test://mixed-content-resource",
        text='{"test":"data","value":123}',
        mime_type="application/json",
    )
    text = TextContent("Multiple content types test:")
    return Contents((text, ImageContent(PIXEL, "image/png"), resource))


@tool(category="read")
def test_tool_with_progress(*, context: ToolContext) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        context.progress(done, 100, f"Completed step {done} of 100")
    return "done"


@tool(category="read")
def test_error_handling() -> None:
    """Fail, always."""
    raise ToolValidationError("This tool intentionally returns an error for testing")


@tool(category="read")
def test_logging_tool() -> str:
    """Log something."""
    logging.getLogger("conformance").warning("This stays in the log of the server.")
    return "logged"


@tool(category="read", requires_confirmation=True)
def test_streaming_elicitation() -> str:
    """Run only when a person has said so."""
    return "confirmed"


@tool(category="read", requires_confirmation=True)
def test_elicitation(message: str) -> str:
    """Answer once a person has seen the message, which is among the arguments."""
    return f"confirmed: {message}"


def _to_confirm(name: str) -> Tool[Any, Any]:
    @tool(name=name, category="read", requires_confirmation=True)
    def handler() -> str:
        """Answer once a person has said so."""
        return "state-ok"

    return handler


QUESTIONS: Final = [
    _to_confirm(f"test_input_required_result_{each}")
    for each in ("elicitation", "request_state", "tampered_state")
]


def _from_schema(name: str, description: str, schema: Mapping[str, Any]) -> Tool[Any, Any]:
    def handler(params: Any, *, context: ToolContext) -> ToolResult[str]:
        return ToolResult.ok(f"{name} was called.")

    return Tool[Any, str](
        name=name,
        description=description,
        handler=handler,
        category="read",
        params_schema=schema,
    )


JSON_SCHEMA_TOOL: Final = _from_schema(
    "json_schema_2020_12_tool",
    "Tool with JSON Schema 2020-12 features",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)

HEADERS_TOOL: Final = _from_schema(
    "test_custom_headers",
    "Take a param that a header repeats",
    {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
)


@hookimpl
def toolstile_sections():
    tools = [
        *(test_simple_text, test_image_content, test_audio_content, test_embedded_resource),
        *(test_multiple_content_types, test_tool_with_progress, test_error_handling),
        *(JSON_SCHEMA_TOOL, HEADERS_TOOL, test_logging_tool),
        *(test_streaming_elicitation, test_elicitation, *QUESTIONS),
    ]
    return [
        MarkdownSection(
            key="test_simple_prompt",
            title="Simple",
            template="This is a simple prompt for testing.",
            tools=tools,
        ),
        MarkdownSection(
            key="test_prompt_with_arguments",
            title="With arguments",
            template="Prompt with arguments: arg1='$arg1', arg2='$arg2'",
        ),
    ]

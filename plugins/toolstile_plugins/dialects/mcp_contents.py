"""MCP: contents as the blocks of a result."""

from __future__ import annotations

from typing import Any

from toolstile_hookspecs import (
    AudioContent,
    Contents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

Block = dict[str, Any]


def blocks(contents: Contents, preface: str = "") -> list[Block]:
    """Return the contents as content blocks, after a text where there is one."""
    shapes = [_block(part) for part in contents.parts]
    return [{"type": "text", "text": preface}, *shapes] if preface else shapes


def _block(
    part: TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink,
) -> Block:
    shape: Block = {"type": part.type, **_fields(part)}
    if part.annotations is not None:
        shape["annotations"] = dict(part.annotations)
    return shape


def _fields(
    part: TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink,
) -> Block:
    match part:
        case TextContent():
            return {"text": part.text}
        case ImageContent() | AudioContent():
            return {"data": part.data, "mimeType": part.mime_type}
        case EmbeddedResource():
            # A resource that holds nothing is one without a text.
            held = {"blob": part.blob} if part.blob is not None else {"text": part.text or ""}
            return {"resource": _known(uri=part.uri, mimeType=part.mime_type, **held)}
        case ResourceLink():
            return _known(
                uri=part.uri,
                name=part.name,
                title=part.title,
                description=part.description,
                mimeType=part.mime_type,
                size=part.size,
            )


def _known(**fields: Any) -> Block:
    return {name: value for name, value in fields.items() if value is not None}

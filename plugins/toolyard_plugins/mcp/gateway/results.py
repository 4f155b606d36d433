"""What a server answers, as contents: nothing is lost, and what is too large is cut visibly."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import mcp_types as types

from toolyard_hookspecs import (
    AudioContent,
    Content,
    Contents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from toolyard_plugins.mcp.gateway.wording import amount


def contents_of(result: types.CallToolResult, *, max_text: int, max_binary: int) -> Contents:
    """Return what a server answered.

    Args:
        result: The answer.
        max_text: The most characters of all texts; what is structured has as many again.
        max_binary: The most bytes of everything that is no text.
    """
    room = _Room(max_text, max_binary)
    parts = [room.fit(part) for part in map(_part, result.content)]
    structured = result.structured_content
    if structured is not None:
        size = len(json.dumps(structured, ensure_ascii=False))
        if not parts:
            parts = [room.fit(TextContent(json.dumps(structured, ensure_ascii=False)))]
        if size > max_text:
            parts.append(_note(f"structured result of {size:,} characters left out"))
            structured = None
    return Contents(tuple(parts), structured)


def texts_of(contents: Contents) -> str:
    """Return what can be read of contents."""
    return contents.render().strip()


class _Room:
    """How much of an answer is still taken."""

    def __init__(self, text: int, binary: int) -> None:
        self._most_text, self._most_binary = text, binary
        self._text, self._binary = text, binary

    def fit(self, part: Content) -> Content:
        match part:
            case TextContent():
                return replace(part, text=self._cut(part.text))
            case ImageContent() | AudioContent():
                return part if self._takes(part.data) else self._left_out(part.type, part.data)
            case EmbeddedResource():
                if part.blob is not None and not self._takes(part.blob):
                    return self._left_out(part.uri[:200], part.blob)
                return part if part.text is None else replace(part, text=self._cut(part.text))
            case ResourceLink():
                described = None if part.description is None else self._cut(part.description)
                return replace(part, description=described)

    def _cut(self, text: str) -> str:
        kept, whole = text[: self._text], len(text)
        self._text -= len(kept)
        if len(kept) == whole:
            return text
        return (
            f"{kept}\n[cut here: {len(kept):,} of {whole:,} characters are shown, since a result "
            f"may have {self._most_text:,}. Ask for less at a time.]"
        )

    def _takes(self, data: str) -> bool:
        size = _bytes(data)
        if size > self._binary:
            return False
        self._binary -= size
        return True

    def _left_out(self, what: str, data: str) -> TextContent:
        most = amount(self._most_binary)
        return _note(f"{what} of {amount(_bytes(data))} left out, since a result may have {most}")


def _part(block: types.ContentBlock) -> Content:
    said = None if block.annotations is None else _plain(block.annotations)
    match block:
        case types.TextContent():
            return TextContent(block.text, said)
        case types.ImageContent():
            return ImageContent(block.data, block.mime_type, said)
        case types.AudioContent():
            return AudioContent(block.data, block.mime_type, said)
        case types.ResourceLink():
            return ResourceLink(
                block.uri,
                block.name,
                block.title,
                block.description,
                block.mime_type,
                block.size,
                said,
            )
        case types.EmbeddedResource():
            held = block.resource
            text = held.text if isinstance(held, types.TextResourceContents) else None
            blob = held.blob if isinstance(held, types.BlobResourceContents) else None
            return EmbeddedResource(held.uri, text, blob, held.mime_type, said)


def _plain(annotations: types.Annotations) -> dict[str, Any]:
    return annotations.model_dump(mode="json", by_alias=True, exclude_none=True)


def _note(text: str) -> TextContent:
    return TextContent(f"[{text}]")


def _bytes(data: str) -> int:
    return len(data) * 3 // 4

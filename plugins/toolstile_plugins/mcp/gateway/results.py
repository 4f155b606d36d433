"""A server's answers as contents; the host shortens their texts."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

import mcp_types as types

from toolstile_hookspecs import (
    AudioContent,
    Content,
    Contents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.mcp.gateway.errors import amount, one_line

PARTS: Final = 1000
"""The most parts of a result."""
NAMES: Final = 100_000
"""The most characters of the names, URIs and annotations of a result."""


def contents_of(
    result: types.CallToolResult, *, max_binary: int, misfit: str | None = None
) -> Contents:
    """Return the contents of a server's answer.

    Args:
        result: The answer.
        max_binary: The most bytes of everything that is not text.
        misfit: Why what is structured is left out, None where it is not.
    """
    room = _Room(max_binary)
    parts = room.fit_all([_part(block) for block in result.content[:PARTS]], len(result.content))
    structured = result.structured_content
    if structured is not None:
        text, misfit = _json_of(structured, misfit)
        if not parts:
            parts = [TextContent(text)]
        if misfit is not None:
            parts.append(_note(f"structured result left out: {one_line(misfit)}"))
            structured = None
    return Contents(tuple(parts), structured)


def _json_of(structured: object, misfit: str | None) -> tuple[str, str | None]:
    """Return a structured result as text, and why it is left out, if it is."""
    try:
        return json.dumps(structured, ensure_ascii=False, allow_nan=False), misfit
    except ValueError:
        return json.dumps(structured, ensure_ascii=False), "it holds a number that JSON has not"


class _Room:
    def __init__(self, binary: int) -> None:
        self._most_binary = self._binary = binary
        self._names = NAMES

    def fit_all(self, parts: Sequence[Content], of: int) -> list[Content]:
        """Return the parts that fit, of all that there are, with a note of those left out."""
        fitted = [kept for part in parts if (kept := self._fit(part)) is not None]
        if left := of - len(fitted):
            told = f"{counted(left, 'part')} left out, beyond what a result may have"
            fitted.append(_note(told))
        return fitted

    def _fit(self, part: Content) -> Content | None:
        """Return a part as far as it fits; None where it does not, and a cut was noted before."""
        if not self._takes_names(part):
            return None
        match part:
            case ImageContent() | AudioContent():
                return self._binary_or_note(part, part.type, part.data)
            case EmbeddedResource() if part.blob is not None:
                return self._binary_or_note(part, part.uri[:200], part.blob)
            case _:
                return part

    def _takes_names(self, part: Content) -> bool:
        """Take room for the names of a part; False where there is not enough."""
        said = "" if part.annotations is None else json.dumps(part.annotations)
        size = len(said) + sum(
            len(getattr(part, name, None) or "")
            for name in ("uri", "name", "title", "mime_type", "description")
        )
        if size > self._names:
            return False
        self._names -= size
        return True

    def _binary_or_note(self, part: Content, what: str, data: str) -> Content:
        if not _is_base64(data):
            return _note(f"{what} left out, since it is not written in base64")
        size, most = len(data) * 3 // 4, self._most_binary
        if size > self._binary:
            told = f"{what} of {amount(size)} left out"
            return _note(f"{told}, since a result may have {amount(most)}")
        self._binary -= size
        return part


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


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return False
    return True

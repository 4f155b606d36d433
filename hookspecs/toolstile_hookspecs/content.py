"""Values that are not text: images, audio and resources, as the Model Context Protocol has them.

A dialect that can carry them gives them to the model as they are; others use `Contents.render`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field


@dataclass(frozen=True, slots=True)
class TextContent:
    """A text among other contents.

    Args:
        text: The text.
        annotations: Notes of its source, such as its audience.
    """

    text: str
    annotations: Mapping[str, Any] | None = None
    type: Literal["text"] = "text"

    def render(self) -> str:
        """Return the text."""
        return self.text


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image.

    Args:
        data: Its bytes as base64.
        mime_type: Its media type, such as `image/png`.
        annotations: Notes of its source, such as its audience.
    """

    data: str = field(repr=False)
    mime_type: str
    annotations: Mapping[str, Any] | None = None
    type: Literal["image"] = "image"

    def render(self) -> str:
        """Return a text that stands for the image."""
        return f"[image: {self.mime_type}, {_size(self.data)}]"


@dataclass(frozen=True, slots=True)
class AudioContent:
    """A recording.

    Args:
        data: Its bytes as base64.
        mime_type: Its media type, such as `audio/wav`.
        annotations: Notes of its source, such as its audience.
    """

    data: str = field(repr=False)
    mime_type: str
    annotations: Mapping[str, Any] | None = None
    type: Literal["audio"] = "audio"

    def render(self) -> str:
        """Return a text that stands for the recording."""
        return f"[audio: {self.mime_type}, {_size(self.data)}]"


@dataclass(frozen=True, slots=True)
class EmbeddedResource:
    """A resource with its text or its bytes.

    Args:
        uri: Its URI.
        text: Its text.
        blob: Its bytes as base64.
        mime_type: Its media type.
        annotations: Notes of its source, such as its audience.
    """

    uri: str
    text: str | None = None
    blob: str | None = field(default=None, repr=False)
    mime_type: str | None = None
    annotations: Mapping[str, Any] | None = None
    type: Literal["resource"] = "resource"

    def render(self) -> str:
        """Return its text, or a text that stands for its bytes."""
        if self.text is not None:
            return f"[resource: {self.uri}]\n{self.text}"
        media_type = f"{self.mime_type}, " if self.mime_type else ""
        return f"[resource: {self.uri}, {media_type}{_size(self.blob or '')}]"


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A resource that can be read elsewhere.

    Args:
        uri: Its URI.
        name: Its name.
        title: Its name for people.
        description: Its description.
        mime_type: Its media type.
        size: Its size in bytes.
        annotations: Notes of its source, such as its audience.
    """

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Mapping[str, Any] | None = None
    type: Literal["resource_link"] = "resource_link"

    def render(self) -> str:
        """Return its name, its URI and its description."""
        description = f": {self.description}" if self.description else ""
        return f"[link: {self.title or self.name} at {self.uri}{description}]"


Content: TypeAlias = Annotated[
    TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink,
    Field(discriminator="type"),
]
"""A part of a result that is more than text: an image, a sound, a file, a link."""


@dataclass(frozen=True, slots=True)
class Contents:
    """A value of several contents, in order.

    Args:
        parts: The contents.
        structured: The same as JSON, where the source gives both.

    Example:
        >>> print(Contents((TextContent("A dot:"), ImageContent("iVBORw==", "image/png"))).render())
        A dot:
        [image: image/png, 4 bytes]
    """

    parts: tuple[Content, ...]
    structured: Any = None

    def render(self) -> str:
        """Return the texts, and texts that stand for the others, one below the other."""
        return "\n".join(part.render() for part in self.parts)


def _size(data: str) -> str:
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return "1 byte" if size == 1 else f"{size:,} bytes"

"""Values that are not text: images, audio, and resources, as tools give them to a model.

A dialect that can carry them gives them to the model as they are; everybody else reads what
`Contents.render` tells of them. Source of the shapes: the content blocks of the Model Context
Protocol.
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
        annotations: What its source says of it, such as whom it is for.
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
        mime_type: Its kind, such as `image/png`.
        annotations: What its source says of it, such as whom it is for.
    """

    data: str = field(repr=False)
    mime_type: str
    annotations: Mapping[str, Any] | None = None
    type: Literal["image"] = "image"

    def render(self) -> str:
        """Return what stands for it where no image can be shown."""
        return f"[image: {self.mime_type}, {_size(self.data)}]"


@dataclass(frozen=True, slots=True)
class AudioContent:
    """A recording.

    Args:
        data: Its bytes as base64.
        mime_type: Its kind, such as `audio/wav`.
        annotations: What its source says of it, such as whom it is for.
    """

    data: str = field(repr=False)
    mime_type: str
    annotations: Mapping[str, Any] | None = None
    type: Literal["audio"] = "audio"

    def render(self) -> str:
        """Return what stands for it where nothing can be heard."""
        return f"[audio: {self.mime_type}, {_size(self.data)}]"


@dataclass(frozen=True, slots=True)
class EmbeddedResource:
    """A resource with what it holds: either text or bytes.

    Args:
        uri: What names it.
        text: Its text.
        blob: Its bytes as base64.
        mime_type: Its kind.
        annotations: What its source says of it, such as whom it is for.
    """

    uri: str
    text: str | None = None
    blob: str | None = field(default=None, repr=False)
    mime_type: str | None = None
    annotations: Mapping[str, Any] | None = None
    type: Literal["resource"] = "resource"

    def render(self) -> str:
        """Return its text, or what stands for its bytes."""
        if self.text is not None:
            return f"[resource: {self.uri}]\n{self.text}"
        kind = f"{self.mime_type}, " if self.mime_type else ""
        return f"[resource: {self.uri}, {kind}{_size(self.blob or '')}]"


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A resource that can be read elsewhere.

    Args:
        uri: What names it.
        name: What it is called.
        title: Its name for people.
        description: What it is.
        mime_type: Its kind.
        size: How many bytes it has.
        annotations: What its source says of it, such as whom it is for.
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
        """Return its name and where it is."""
        told = f": {self.description}" if self.description else ""
        return f"[link: {self.title or self.name} at {self.uri}{told}]"


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
        structured: The same as JSON, where its source gives it as well.

    Example:
        >>> print(Contents((TextContent("A dot:"), ImageContent("iVBORw==", "image/png"))).render())
        A dot:
        [image: image/png, 4 bytes]
    """

    parts: tuple[Content, ...]
    structured: Any = None

    def render(self) -> str:
        """Return the texts, and what stands for everything else, one below the other."""
        return "\n".join(part.render() for part in self.parts)


def _size(data: str) -> str:
    """Return how many bytes base64 text stands for."""
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return "1 byte" if size == 1 else f"{size:,} bytes"

"""Content that stays as it is, whatever becomes of where it comes from."""

from __future__ import annotations

from typing import Final

from toolstile_plugins.vfs.nodes import Content, InMemory, Spooled
from toolstile_plugins.vfs.streams import WriteStream

_BLOCK_BYTES: Final = 1 << 20


def kept(content: Content) -> Content:
    """Return a content at hand, reading it where it is not.

    Raises:
        OSError: When it cannot be read.
    """
    if isinstance(content, (InMemory, Spooled)):
        return content
    read: list[Content] = []
    with content.open() as source, WriteStream(read.append) as stream:
        while block := source.read(_BLOCK_BYTES):
            stream.write(block)
    return read[0]

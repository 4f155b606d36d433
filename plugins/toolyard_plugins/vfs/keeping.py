"""Content that stays as it is, whatever becomes of where it comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from toolyard_plugins.vfs.nodes import Content, InMemory, Node, Spooled
from toolyard_plugins.vfs.streams import WriteStream

_BLOCK_BYTES: Final = 1 << 20


def kept(node: Node) -> Node:
    """Return a node whose content is at hand.

    Raises:
        OSError: When it cannot be read.
    """
    if node.content is None or isinstance(node.content, (InMemory, Spooled)):
        return node
    return replace(node, content=_read(node.content))


def _read(content: Content) -> Content:
    read: list[Content] = []
    with content.open() as source, WriteStream(read.append) as stream:
        while block := source.read(_BLOCK_BYTES):
            stream.write(block)
    return read[0]

"""Messages of servers that are nested deeper than can be read."""

from __future__ import annotations

import re
from typing import Final

from toolstile_plugins.mcp.gateway.errors import NESTED_DEEPER

DEEPEST: Final = 150
"""Levels of a message that are read; the SDK's reader takes 200."""
TOO_DEEP: Final = f'{{"$ref": "{NESTED_DEEPER}"}}'.encode()
"""Stands for what is nested deeper; in a schema, it keeps its tool from being used."""
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]')
"""The brackets of JSON, and its texts, in which they are none."""


def flattened(text: bytes) -> bytes:
    """Return JSON whose parts that are nested beyond what can be read say so instead.

    Example:
        >>> flattened(b"[" * 151 + b"]" * 151).count(b"["), flattened(b"[1]")
        (150, b'[1]')
    """
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return text
    kept: list[bytes] = []
    depth = start = 0
    for found in _BRACKETS.finditer(text):
        if found[0] in b"[{":
            if depth == DEEPEST:
                kept.append(text[start : found.start()])
            depth += 1
        elif found[0] in b"]}":
            depth -= 1
            if depth == DEEPEST:
                kept.append(TOO_DEEP)
                start = found.end()
    return b"".join([*kept, text[start:]])

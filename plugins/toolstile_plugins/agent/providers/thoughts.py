"""Thoughts that a model writes before its answer, as models without a reasoning parser do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from toolstile_hookspecs.agents.provider import Delta, ThoughtDelta

_TAGS: Final = ("think", "thinking", "thought", "thoughts", "reasoning")
_OPENED: Final = re.compile(rf"\s*<({'|'.join(_TAGS)})>")
_CLOSED: Final = re.compile(rf"(?!\s*[\[{{\"]).*?</(?:{'|'.join(_TAGS)})>\s*", re.DOTALL)


def without_thoughts(text: str) -> str:
    """Return a text without the thoughts before it.

    Example:
        >>> without_thoughts("<think>Hm.</think>Yes.")
        'Yes.'
    """
    reader = InlineThoughts()
    pieces = (*reader.split(text), *reader.rest())
    return "".join(each for each in pieces if isinstance(each, str))


def typed_part(text: str) -> str:
    """Return an answer in JSON without all thoughts before it; some lack their beginning."""
    text = without_thoughts(text)
    while found := _CLOSED.match(text):
        text = text[found.end() :]
    return text


class InlineThoughts:
    """Tells the thoughts before a text that streams from the text."""

    def __init__(self) -> None:
        self._held = ""
        self._end = ""
        self._is_closed = self._is_text = False

    def split(self, text: str) -> Iterator[Delta]:
        """Yield the next piece, but for what may be a part of a tag."""
        if self._is_text:
            yield text
            return
        self._held += text
        if not (self._end or self._is_closed) and (opened := _OPENED.match(self._held)):
            self._end, self._held = f"</{opened[1]}>", self._held[opened.end() :]
        if self._end:
            thought, closed, self._held = self._held.partition(self._end)
            if not closed:
                cut = max(0, len(thought) - len(self._end) + 1)
                thought, self._held = thought[:cut], thought[cut:]
            if thought:
                yield ThoughtDelta(thought)
            if not closed:
                return
            self._end, self._is_closed = "", True
        begun = self._held.lstrip()
        if not begun or (
            not self._is_closed and any(f"<{tag}>".startswith(begun) for tag in _TAGS)
        ):
            return
        self._is_text = True
        yield begun if self._is_closed else self._held

    def rest(self) -> Iterator[Delta]:
        """Yield the end of a stream that has ended."""
        if self._held and not (self._is_text or self._is_closed):
            yield ThoughtDelta(self._held) if self._end else self._held

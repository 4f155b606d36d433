"""Docstrings taken apart: the first paragraph and sentence, and a text for each argument."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Final, cast

_SECTIONS: Final = frozenset({"args:", "arguments:", "parameters:", "params:", "attributes:"})
_ENTRY: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s")


def docstring_of(function: Callable[..., Any]) -> str:
    """Return a function's own docstring, also through `functools.partial`."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = cast("Any", inner.func)
    return inspect.getdoc(inner) or ""


def first_paragraph(text: str) -> str:
    r"""Return a docstring's first paragraph on one line.

    Example:
        >>> first_paragraph("Add two\nnumbers.\n\nSlowly.")
        'Add two numbers.'
    """
    return " ".join(text.split("\n\n", 1)[0].split())


def first_sentence(text: str, limit: int) -> str:
    """Return the first sentence, cut at a word where it is longer than the limit.

    Example:
        >>> first_sentence("Add numbers. They may be many.", 50)
        'Add numbers.'
    """
    sentence = _SENTENCE_END.split(text, maxsplit=1)[0]
    if len(sentence) <= limit:
        return sentence
    head = sentence[: limit - 3]
    return f"{head.rsplit(' ', 1)[0]}..."


def argument_texts(text: str) -> dict[str, str]:
    r"""Return what the `Args:` (or `Attributes:`) section says, by name.

    Example:
        >>> argument_texts("Add.\n\nArgs:\n    a: The first.\n    b (int): The second.")
        {'a': 'The first.', 'b': 'The second.'}
    """
    found: dict[str, str] = {}
    for section in _sections(inspect.cleandoc(text).splitlines()):
        margin = _indent(section[0])
        name = ""
        for line in section:
            entry = _ENTRY.fullmatch(line.strip()) if _indent(line) == margin else None
            if entry is not None:
                name = entry["name"]
                found[name] = entry["text"]
            elif name:
                found[name] = f"{found[name]} {line.strip()}".strip()
    return {name: text for name, text in found.items() if text}


def _sections(lines: list[str]) -> list[list[str]]:
    """Return the indented lines below each heading that lists arguments."""
    found: list[list[str]] = []
    inside = False
    for line in lines:
        if not line.strip():
            continue
        if _indent(line) == 0:
            inside = line.strip().lower() in _SECTIONS
            if inside:
                found.append([])
        elif inside:
            found[-1].append(line)
    return [section for section in found if section]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

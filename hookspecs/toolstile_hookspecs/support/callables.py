"""Functions as they are called and described: sync or async, docstrings, fast constructors."""

from __future__ import annotations

import functools
import inspect
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING, fields
from typing import Any, Final, TypeVar, cast

from docstring_parser import DocstringParam, ParseError, parse, parse_from_object
from docstring_parser.google import DEFAULT_SECTIONS, GoogleParser, Section, SectionType

from toolstile_hookspecs.support.process import renewed_in_forks

T = TypeVar("T")


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Tell whether calling the function gives a coroutine, through partials and `__call__`."""
    inner = innermost(function)
    if inspect.iscoroutinefunction(inner):
        return True
    call = getattr(type(inner), "__call__", None)  # noqa: B004 - the method itself is wanted
    return not inspect.isroutine(inner) and inspect.iscoroutinefunction(call)


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function below wrappers and partials, or the first wrapper that is async."""
    inner: Any = inspect.unwrap(function, stop=inspect.iscoroutinefunction)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(cast("Any", inner.func), stop=inspect.iscoroutinefunction)
    return cast("Callable[..., Any]", inner)


def filled_at_once(cls: type[T]) -> type[T]:
    """Have a frozen dataclass without slots write its fields to its dict, in half the time."""
    made: Any = cls
    given: dict[str, Any] = {"MISSING": MISSING}
    parameters, lines = ["self"], ["    fields = self.__dict__"]
    for each in fields(made):
        name = value = each.name
        if each.default_factory is not MISSING:
            given[f"make_{name}"] = each.default_factory
            value = f"make_{name}() if {name} is MISSING else {name}"
        given[f"default_{name}"] = each.default
        is_needed = each.default is MISSING and value == name
        parameters.append(name if is_needed else f"{name}=default_{name}")
        lines.append(f"    fields[{name!r}] = {value}")
    source = "\n".join((f"def fill({', '.join(parameters)}):", *lines))
    exec(source, given)  # noqa: S102 - made of names of ours
    made.__init__ = functools.wraps(made.__init__)(given["fill"])
    return cls


_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s")
_KEYWORDS: Final = ("Keyword Args", "Keyword Arguments", "Other Parameters")
"""Sections of arguments in Google style that the parser does not know by itself."""
_google: Final = GoogleParser(
    [*DEFAULT_SECTIONS, *(Section(title, "param", SectionType.MULTIPLE) for title in _KEYWORDS)]
)
_parsing = renewed_in_forks(__name__, "_parsing", threading.Lock)
"""Held while a class is parsed: Python 3.11 raises when several threads make a syntax tree."""


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
    """Return the first sentence, cut at a word if longer than the limit.

    Example:
        >>> first_sentence("Add numbers. They may be many.", 50)
        'Add numbers.'
    """
    sentence = _SENTENCE_END.split(text, maxsplit=1)[0]
    if len(sentence) <= limit:
        return sentence
    head = sentence[: limit - 3]
    return f"{head.rsplit(' ', 1)[0]}..."


def argument_texts(described: str | type) -> dict[str, str]:
    r"""Return the text for each argument or attribute, by name, in Google, NumPy or Sphinx style.

    Args:
        described: A docstring, or a class, whose docstrings below attributes count, too.

    Example:
        >>> argument_texts("Add.\n\nArgs:\n    a: The first.\n    b (int): The second.")
        {'a': 'The first.', 'b': 'The second.'}
        >>> argument_texts("Add.\n\n:param a: The first.")
        {'a': 'The first.'}
    """
    with _parsing:
        found: list[DocstringParam] = []
        if isinstance(described, str):
            with suppress(ParseError):
                found += _google.parse(described).params
        try:
            read: Any = parse if isinstance(described, str) else parse_from_object
            found += read(described).params
        except (ParseError, TypeError, SyntaxError):
            return {}
    # NumPy style describes several arguments at once, as in `x, y : int`.
    texts = {
        name.strip(" *`"): " ".join((param.description or "").split())
        for param in found
        for name in param.arg_name.split(",")
    }
    return {name: text for name, text in texts.items() if text}

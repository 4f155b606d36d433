"""Whether what was given as a function can be called as it is going to be."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def call_fault(function: Callable[..., Any], *arguments: object) -> str | None:
    """Return why a function cannot be called with these arguments, where it says what it takes.

    Example:
        >>> call_fault(lambda resources: {}, None)
        >>> call_fault(lambda: {}, None)
        'too many positional arguments'
    """
    try:
        # What a decorator returns may take other arguments than the function that it wraps.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None  # it does not say: it is not written in Python, or stands in for what is
    try:
        signature.bind(*arguments)
    except TypeError as error:
        return str(error)
    return None

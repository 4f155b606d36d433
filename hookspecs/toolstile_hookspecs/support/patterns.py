"""Patterns that are searched for in a time that grows with the text, and no faster."""

from __future__ import annotations

import importlib
from typing import Any


def bounded(pattern: str | bytes) -> Any:
    """Return a pattern of RE2, compiled.

    Args:
        pattern: What to search for: in texts, or in bytes that are UTF-8.

    Raises:
        ValueError: When it is none that RE2 knows, as with look-around and back-references; says
            what is wrong with it.
    """
    # Late: a compiled library, and few search for anything.
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise ValueError(error.reason) from None
    except re2.error as error:
        reason: object = error.args[0] if error.args else "not valid"
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(told) from None

"""The pattern of tools' names, and patterns that are searched for in linear time."""

from __future__ import annotations

import importlib
import re
from typing import Any, Final

TOOL_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}")
_NUMBER, _LABEL = r"(?:0|[1-9][0-9]*)", r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_PRE: Final = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
SEMVER: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-{_PRE}(?:\.{_PRE})*)?(?:\+{_LABEL})?"
)
"""A version as SemVer 2.0 has it, with the groups major, minor and patch."""


class NoSearchError(ValueError):
    """No pattern can be searched for, as RE2 is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Patterns cannot be searched for here: the package google-re2 is not installed. It "
            "has no wheel for every platform; build it with: python -m pip install google-re2"
        )


def bounded(pattern: str | bytes) -> Any:
    """Return a pattern of RE2 for texts, or for bytes that are UTF-8.

    Raises:
        NoSearchError: If RE2 is not installed.
        ValueError: If RE2 refuses the pattern, as with look-around and back-references; with the
            reason.
    """
    try:
        # Late, because it is a compiled library that few need.
        re2: Any = importlib.import_module("re2")
    except ModuleNotFoundError:
        raise NoSearchError from None
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

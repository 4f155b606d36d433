"""Diagnostics: the lines of `toolstile doctor`, and log records that people always see."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from toolstile_hookspecs.errors import DefinitionError


class Severity(StrEnum):
    """The severity of a diagnostic."""

    OK = "ok"
    NOTE = "note"
    """Nothing is wrong: something is not there, or switched off, and need not be otherwise."""
    WARNING = "warning"
    """Calls work, but somebody should look at it."""
    ERROR = "error"
    """Calls that need it fail."""


_WRONG: Final = frozenset({Severity.WARNING, Severity.ERROR})


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something that is as it should be, or that is wrong, with its remedy; holds no secret.

    Args:
        subject: What it is about, in a few words, such as a file.
        text: What is the case, a sentence.
        severity: How bad it is.
        remedy: What to do, a sentence; needed for what is wrong.

    Raises:
        DefinitionError: When something is wrong and there is no remedy.

    Example:
        >>> Diagnostic.error("the database", "It is not there.", "Run `createdb x`.").text
        'It is not there.'
    """

    subject: str
    text: str
    severity: Severity = Severity.OK
    remedy: str | None = None

    def __post_init__(self) -> None:
        """Check that what is wrong has a remedy."""
        object.__setattr__(self, "severity", Severity(self.severity))
        if self.severity in _WRONG and not self.remedy:
            raise DefinitionError(f"Diagnostic {self.subject!r}: say in `remedy` how to fix it.")

    @classmethod
    def ok(cls, subject: str, text: str) -> Diagnostic:
        """Return that something is as it should be."""
        return cls(subject, text)

    @classmethod
    def note(cls, subject: str, text: str, remedy: str | None = None) -> Diagnostic:
        """Return that something is not there or switched off, and what to do to have it."""
        return cls(subject, text, Severity.NOTE, remedy)

    @classmethod
    def warning(cls, subject: str, text: str, remedy: str) -> Diagnostic:
        """Return that somebody should look at something."""
        return cls(subject, text, Severity.WARNING, remedy)

    @classmethod
    def error(cls, subject: str, text: str, remedy: str) -> Diagnostic:
        """Return that calls which need something fail."""
        return cls(subject, text, Severity.ERROR, remedy)


# --- Notices


_MARK: Final = "toolstile_notice"

NOTICE: Final[Mapping[str, object]] = MappingProxyType({_MARK: True})
"""Makes a log record a notice, as its `extra`.

The command line shows log records of calls only with `-v`, but notices always: spans that no
collector took, say.
"""


def is_notice(record: logging.LogRecord) -> bool:
    """Tell whether a log record is a notice, `log.warning(..., extra=NOTICE)`."""
    return getattr(record, _MARK, None) is True

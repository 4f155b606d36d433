"""Observation: the lines of `toolstile doctor`, notices in the log, and traces of calls."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

from toolstile_hookspecs.calls import Stage
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


@runtime_checkable
class StageTrace(Protocol):
    """A trace that hears of every stage of its call, to time them or to open spans."""

    def stage(self, stage: Stage) -> None:
        """Hear that the call enters a stage, which ends the one before.

        Called on the thread and in the context in which the trace was entered. A stage may
        come more than once: checks are repeated after an approval, and a contained call is
        run again after a conflict. What it raises is logged.
        """


@runtime_checkable
class CrossingTrace(Protocol):
    """A trace that goes along into the process of an isolated handler."""

    def crossing(self) -> AbstractContextManager[None] | None:
        """Return what is to be entered around the handler, in its process.

        Called where the handler is about to start. What it returns, such as a dataclass, crosses
        as `PortableValues` write it. It is entered once the handler's module is imported, and
        left before the process ends; None stays here. What it raises, here and there, is logged.
        """
        ...

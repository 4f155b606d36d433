"""Observation: the lines of `doctor` and `status`, notices in the log, and traces of calls."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Protocol, runtime_checkable

from toolstile_hookspecs.calls import Stage
from toolstile_hookspecs.errors import DefinitionError


class Severity(StrEnum):
    """The severity of a diagnostic."""

    OK = "ok"
    NOTE = "note"
    """Something is absent or switched off, which is not a fault."""
    WARNING = "warning"
    """Calls work, but a person should check it."""
    ERROR = "error"
    """Calls that need it fail."""


_WRONG: Final = frozenset({Severity.WARNING, Severity.ERROR})


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding, good or bad; a bad one has a remedy. It holds no secret.

    Args:
        subject: The subject in a few words, such as a file.
        text: The finding, a sentence.
        severity: The severity.
        remedy: The remedy, a sentence; needed for warnings and errors.

    Raises:
        DefinitionError: For a warning or an error without a remedy.

    Example:
        >>> Diagnostic.error("the database", "It is not there.", "Run `createdb x`.").text
        'It is not there.'
    """

    subject: str
    text: str
    severity: Severity = Severity.OK
    remedy: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "severity", Severity(self.severity))
        if self.severity in _WRONG and not self.remedy:
            raise DefinitionError(f"Diagnostic {self.subject!r}: say in `remedy` how to fix it.")

    @classmethod
    def ok(cls, subject: str, text: str) -> Diagnostic:
        """Return a good finding."""
        return cls(subject, text)

    @classmethod
    def note(cls, subject: str, text: str, remedy: str | None = None) -> Diagnostic:
        """Return that something is absent or switched off, and how to have it."""
        return cls(subject, text, Severity.NOTE, remedy)

    @classmethod
    def warning(cls, subject: str, text: str, remedy: str) -> Diagnostic:
        """Return that a person should check something."""
        return cls(subject, text, Severity.WARNING, remedy)

    @classmethod
    def error(cls, subject: str, text: str, remedy: str) -> Diagnostic:
        """Return that calls fail."""
        return cls(subject, text, Severity.ERROR, remedy)


@dataclass(frozen=True, slots=True)
class StatusPart:
    """A part of `toolstile status`. It holds no secret.

    Args:
        name: Its key in JSON; parts of one name are joined.
        items: Its entries in JSON.
        lines: Its lines for people.

    Example:
        >>> StatusPart("queue", [{"jobs": 3}], ["3 jobs wait."]).lines
        ['3 jobs wait.']
    """

    name: str
    items: Sequence[Mapping[str, Any]] = ()
    lines: Sequence[str] = ()


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
    """A trace with the stages of its call, to time them or to open spans."""

    def stage(self, stage: Stage) -> None:
        """Enter a stage, and leave the one before.

        Called on the thread and in the context of the trace. A stage may come again: checks after
        an approval, and all stages of a contained call after a conflict. An exception is logged.
        """


@runtime_checkable
class CrossingTrace(Protocol):
    """A trace that follows an isolated handler into its process."""

    def crossing(self) -> AbstractContextManager[None] | None:
        """Return a context manager to enter around the handler, in its process, or None.

        Called just before the handler starts. The context manager, such as a dataclass, crosses
        in the form of `PortableValues`. The process enters it once the handler's module is
        imported. Exceptions here and there are logged.
        """
        ...

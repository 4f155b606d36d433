"""Exceptions that left a recorded call, made anew."""

from __future__ import annotations

from typing import Final

from toolstile_hookspecs import (
    DeadlineExceededError,
    Interrupt,
    PromptEvaluationError,
    Status,
    VisibilityExpansionRequired,
)
from toolstile_plugins.record.lines import Raised, RecordedCall


def raised_by(call: RecordedCall) -> Exception | None:
    """Return what left `dispatch` when the call was recorded, None where nothing did.

    What other frameworks raise becomes an `Interrupt` with its name and text. Who stopped the
    recording with Ctrl-C does not stop the replay.
    """
    error = call.error
    if call.status is Status.DEADLINE:
        return _late(error)
    if call.status is not Status.RAISED or error is None or error.type in _STOPPING:
        return None
    if error.type == VisibilityExpansionRequired.__name__:
        return VisibilityExpansionRequired(error.section_keys, error.text)
    kind = _OWN.get(error.type)
    return kind(error.text) if kind is not None else Interrupt(f"{error.type}: {error.text}")


def name_of(error: BaseException) -> str:
    """Return the name of an exception's class.

    Of what stops a program it is the one that Python has for it, however the host calls its own.
    """
    if isinstance(error, Exception):
        return type(error).__name__
    names = [each.__name__ for each in type(error).__mro__]
    return next((name for name in names if name in _STOPPING), names[0])


def _late(error: Raised | None) -> Exception:
    late = DeadlineExceededError("The deadline had passed when the call was recorded.")
    if error is None or error.type != PromptEvaluationError.__name__:
        return late
    ended = PromptEvaluationError(error.text)
    ended.__cause__ = late
    return ended


_OWN: Final = {each.__name__: each for each in (PromptEvaluationError, Interrupt)}
_STOPPING: Final = frozenset({"KeyboardInterrupt", "SystemExit", "CancelledError", "GeneratorExit"})

"""Feedback and checks of completion by configuration; ours and others' are entry points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from toolstile_hookspecs.agents.guidance import (
    FeedbackProviderConfig,
    FeedbackTrigger,
    TaskCompletionChecker,
)
from toolstile_hookspecs.codecs import first_fault
from toolstile_hookspecs.support.text import suggest

FEEDBACK: Final = "toolstile.feedback"
COMPLETION: Final = "toolstile.completion"
_TRIGGER: Final = {each.name for each in fields(FeedbackTrigger)}


def provider_of(table: Mapping[str, Any]) -> FeedbackProviderConfig:
    """Return the provider of a table: its `kind`, the fields of the kind, and a trigger.

    Raises:
        ValueError: When they do not fit.
    """
    trigger = {key: value for key, value in table.items() if key in _TRIGGER}
    own = {key: value for key, value in table.items() if key not in _TRIGGER}
    return FeedbackProviderConfig(_made(FEEDBACK, own), _read(FeedbackTrigger, trigger))


def checker_of(table: Mapping[str, Any]) -> TaskCompletionChecker:
    """Return the checker of a table: its `kind`, and the fields of the kind.

    Raises:
        ValueError: When they do not fit.
    """
    checker: TaskCompletionChecker = _made(COMPLETION, table)
    return checker


def _made(group: str, table: Mapping[str, Any]) -> Any:
    found = {each.name: each for each in entry_points(group=group)}
    kind = table.get("kind")
    if kind is None:
        raise ValueError(f"a table has a kind; known: {', '.join(sorted(found))}")
    if kind not in found:
        near = suggest(str(kind), found) or "."
        raise ValueError(f"{kind!r} is not a known kind{near} Known: {', '.join(sorted(found))}.")
    try:
        type_ = found[kind].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the kind {kind!r} cannot be imported: {error}") from error
    return _read(type_, {key: value for key, value in table.items() if key != "kind"})


def _read(type_: type[Any], table: Mapping[str, Any]) -> Any:
    try:
        return TypeAdapter(type_).validate_python(table, extra="forbid")
    except ValidationError as error:
        raise ValueError(first_fault(error)) from None

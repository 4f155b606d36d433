"""Which recorded changes a session holds already."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AppliedEffect:
    """A mark in the session: it holds what the call recorded under this id has changed.

    A STATE slice like any other, so that going back to a snapshot takes the marks along.
    """

    effect_id: str

"""The request: the texts in which a user says what is wanted, for policies to compare with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class RequestTurn:
    """One text of a request.

    Args:
        text: The text. Secrets may be in clear, so it is not part of the `repr`.
        at: The moment it was said; aware.
        user_id: The id of the principal who said it, None where nobody is named.
        source: The source of that principal.
    """

    text: str = field(repr=False)
    at: datetime
    user_id: str | None = None
    source: str | None = None


RequestTexts = str | RequestTurn | Iterable[str | RequestTurn]
"""A request as it is given: one text or several, in order."""

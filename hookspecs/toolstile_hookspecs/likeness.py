"""Which of the known names one is likely a slip of."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

ALIKE: Final = 0.6
"""How alike two names are, of 1, for one to be a slip of the other."""
COMPARED: Final = 100
"""Characters compared of a name that may be of any length."""


def near(name: str, known: Iterable[str], most: int, alike: float = ALIKE) -> list[str]:
    """Return the known names that are like another, the most alike first.

    Args:
        name: What was written.
        known: What could be meant.
        most: How many to return at most.
        alike: How alike they must be, from 0 to 1.

    Example:
        >>> near("custmer", ["price", "customer", "customers"], 2)
        ['customer', 'customers']
    """
    return difflib.get_close_matches(name[:COMPARED], list(known), n=most, cutoff=alike)


def nearest(name: str, known: Iterable[str], alike: float = ALIKE) -> str | None:
    """Return the known name that is most like another, or None when none is like it."""
    return next(iter(near(name, known, 1, alike)), None)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest known name, or nothing."""
    found = nearest(name, known)
    return "" if found is None else f"; did you mean {found!r}?"

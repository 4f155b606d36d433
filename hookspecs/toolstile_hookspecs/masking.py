"""A value that no text may show, such as the credentials a call runs with."""

from __future__ import annotations

from typing import Any


class Secret:
    """Keeps a value out of every text; `reveal()` gives it.

    Example:
        >>> Secret("hunter2")
        Secret(***)
    """

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def reveal(self) -> Any:
        """Return the value itself."""
        return self._value

    def __repr__(self) -> str:
        """Return a mask."""
        return "Secret(***)"

"""Stable names of types whose items are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_NAMES: Final = "__toolstile_stored_as__"
_OF_POLICY: Final = "__toolstile_of_policy__"


def stored_as(
    name: str, *, formerly: tuple[str, ...] = (), of_policy: bool = False
) -> Callable[[type[T]], type[T]]:
    """Give a class the name under which its items are stored, wherever the class moves.

    Without it the name is the outermost package that exports the class, and its path.

    Args:
        name: The name in stored sessions.
        formerly: Names under which items were stored before.
        of_policy: Whether policies remember calls by the items: then these are neither shown nor
            replayed as changes of a call.

    Example:
        >>> @stored_as("tickets.Ticket", formerly=("toolstile_tickets:Ticket",))
        ... class Ticket:
        ...     number: int
        >>> stored_names(Ticket)
        ('tickets.Ticket', 'toolstile_tickets:Ticket')
    """

    def mark(class_: type[T]) -> type[T]:
        setattr(class_, _NAMES, (name, *formerly))
        setattr(class_, _OF_POLICY, of_policy)
        return class_

    return mark


def stored_names(class_: type[Any]) -> tuple[str, ...]:
    """Return the stored names of a class itself, the present one first."""
    names: tuple[str, ...] = vars(class_).get(_NAMES, ())
    return names


def is_of_policy(class_: object) -> bool:
    """Tell whether the items of a class are the memory of policies."""
    return getattr(class_, _OF_POLICY, False) is True

"""How an instance takes part in transactions, told from its methods."""

from __future__ import annotations

import inspect
from enum import Enum
from typing import Any


class Role(Enum):
    """How an instance takes part in the transaction of a call."""

    PLAIN = "plain"
    """Not at all: whoever asks is given the instance itself."""
    BRANCHABLE = "branchable"
    """Each call is given a branch of it."""
    EXCLUSIVE = "exclusive"
    """One call tree at a time has it."""


def role_of(instance: object) -> Role:
    """Return how an instance takes part.

    The methods must be those of its class and take what the host passes: an object that
    happens to have a `commit()` of its own, such as a database session, is plain.
    """
    if has_method(instance, "branch", 2):
        return Role.BRANCHABLE
    exclusive = (("begin", 0), ("commit", 1), ("rollback", 1))
    if all(has_method(instance, method, arguments) for method, arguments in exclusive):
        return Role.EXCLUSIVE
    return Role.PLAIN


def has_method(instance: object, method: str, arguments: int) -> bool:
    """Tell whether an instance's class has a method that takes so many arguments."""
    function: Any = getattr(type(instance), method, None)
    if not callable(function):
        return False
    try:
        signature = inspect.signature(getattr(instance, method))
        signature.bind(*(None,) * arguments)
    except (TypeError, ValueError):
        return False
    return True

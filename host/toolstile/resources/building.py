"""Constructions under way, and the circles they can form, also across threads."""

from __future__ import annotations

from typing import Any

from toolstile.resources.naming import name_of
from toolstile_hookspecs.errors import CircularDependencyError


class Build:
    """One construction under way.

    Args:
        kind: The type being made.
        asker: The construction that asked for it, or None.
    """

    __slots__ = ("asker", "done", "kind", "needs")

    def __init__(self, kind: type[Any], asker: Build | None) -> None:
        self.kind = kind
        self.asker = asker
        self.done = False
        self.needs: list[Build] = []

    def path_to(self, other: Build) -> list[Build] | None:
        """Return the constructions from this one to `other`, each needing the next."""
        if self is other:
            return [self]
        for need in self.needs:
            path = need.path_to(other)
            if path is not None:
                return [self, *path]
        return None


def refuse_circle(wanted: Build, asker: Build) -> None:
    """Raise if what is being made needs, in the end, the construction that asks for it.

    Raises:
        CircularDependencyError: Naming the circle.
    """
    path = wanted.path_to(asker)
    if path is not None:
        raise _circle([*(build.kind for build in path), wanted.kind])


def refuse_descent(kind: type[Any], asker: Build | None) -> None:
    """Raise if a type that is made anew each time is asked for while it is being made.

    Raises:
        CircularDependencyError: Naming the circle.
    """
    kinds = [kind]
    while asker is not None:
        kinds.insert(0, asker.kind)
        if asker.kind is kind:
            raise _circle(kinds)
        asker = asker.asker


def _circle(kinds: list[type[Any]]) -> CircularDependencyError:
    circle = " -> ".join(name_of(kind) for kind in kinds)
    return CircularDependencyError(
        f"Resources depend on one another in a circle: {circle}. "
        "Let one of them do without the next, or get it only when it is used."
    )

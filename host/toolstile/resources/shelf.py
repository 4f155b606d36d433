"""Where the instances of one scope stand until it ends."""

from __future__ import annotations

from typing import Any

from toolstile.resources.building import Build
from toolstile.resources.roles import Role, role_of


class Built:
    """An instance that is ready to be given.

    Args:
        value: The instance.
        shared: Whether calls share it, because it is a singleton.
    """

    __slots__ = ("role", "shared", "value")

    def __init__(self, value: Any, *, shared: bool) -> None:
        self.value = value
        self.shared = shared
        self.role: Role = role_of(value)


class Shelf:
    """The instances of one scope; guarded by the lock of the container it belongs to."""

    __slots__ = ("_owned", "building", "built", "closed", "known")

    def __init__(self) -> None:
        self.built: dict[type[Any], Built] = {}
        self.building: dict[type[Any], Build] = {}
        self.known: dict[int, Built] = {}
        self.closed = False
        self._owned: list[object] = []

    def own(self, instance: object) -> None:
        """Remember to close an instance with this scope."""
        self._owned.append(instance)

    def take(self) -> list[object]:
        """Return what has to be closed, in the order of closing, and forget it."""
        owned, self._owned = self._owned, []
        owned.reverse()
        return owned

    def give_to(self, other: Shelf) -> None:
        """Let another scope close what this one would have closed."""
        for instance in reversed(self.take()):
            other.own(instance)

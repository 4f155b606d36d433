"""Providers of portable resources, for plugins that run handlers in other processes."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class PortableProviders(Protocol):
    """The resources of a call, which tell how another process makes its own."""

    def portable_provider(self, kind: type[object]) -> str | None:
        """Return the place of the provider of a portable resource, as `module:name`.

        None for one that no import finds: then the resource itself crosses, as data.
        """
        ...

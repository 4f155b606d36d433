"""Bindings: an immutable set that is opened for a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, overload

from toolstile.resources.container import Container, ToolScope
from toolstile.resources.teardown import name_of
from toolstile_hookspecs.errors import DefinitionError
from toolstile_hookspecs.resources import Binding, as_bindings

T = TypeVar("T")
D = TypeVar("D")


class ResourceRegistry:
    """Bindings by type. Immutable; `open()` it as often as there are sessions.

    Example:
        >>> registry = ResourceRegistry.of(
        ...     Binding(dict, lambda resources: {"url": resources.get(str)}),
        ...     Binding.instance(str, "https://example.org"),
        ... )
        >>> with registry.open() as resources:
        ...     resources.get(dict)
        {'url': 'https://example.org'}
    """

    __slots__ = ("_bindings", "_made")

    def __init__(self, bindings: Mapping[type[Any], Binding[Any]] | None = None) -> None:
        self._bindings: Mapping[type[Any], Binding[Any]] = MappingProxyType(dict(bindings or {}))
        self._made: ToolScope | None = None

    @classmethod
    def of(cls, *bindings: Binding[Any]) -> ResourceRegistry:
        """Return a registry of these bindings.

        Raises:
            DefinitionError: If two of them are for the same type, or one is not a binding.
        """
        found: dict[type[Any], Binding[Any]] = {}
        for binding in as_bindings(bindings):
            if binding.kind in found:
                raise DefinitionError(
                    f"{name_of(binding.kind)} is bound twice in one registry; remove one binding, "
                    "or use merge() to replace the earlier by the later."
                )
            found[binding.kind] = binding
        return cls(found)

    @classmethod
    def build(cls, mapping: Mapping[type[Any], Any]) -> ResourceRegistry:
        """Return a registry of a mapping from types to instances or bindings.

        Instances belong to their maker and are not closed. A binding is asked for by the type
        it stands under, not by the one it was written for.

        Raises:
            DefinitionError: When it is not a mapping, or one of its keys is not a type.
        """
        return cls.of(*as_bindings(mapping))

    def merge(self, *others: ResourceRegistry) -> ResourceRegistry:
        """Return all bindings together; where several bind a type, the last one counts."""
        merged = dict(self._bindings)
        for other in others:
            merged.update(other.bindings)
        return ResourceRegistry(merged)

    @property
    def bindings(self) -> Mapping[type[Any], Binding[Any]]:
        """The bindings by type."""
        return self._bindings

    def open(self) -> Container:
        """Open the resources; nothing is built until it is asked for."""
        return Container(self._bindings)

    @overload
    def get(self, kind: type[T]) -> T: ...
    @overload
    def get(self, kind: type[T], default: D) -> T | D: ...
    def get(self, kind: type[Any], default: Any = ...) -> Any:
        """Return a resource to a handler under test, in `ToolContext(resources=registry)`.

        It is made once and never closed; `open()` gives resources that are closed.
        """
        if self._made is None:
            self._made = self.open().tool_scope()
        return self._made.get(kind) if default is ... else self._made.get(kind, default)

    async def aget(self, kind: type[T]) -> T:
        """Return a resource; see `get`."""
        return self.get(kind)

    def is_portable(self, kind: type[object]) -> bool:
        """Return whether the resource of a type may cross into another process."""
        return kind in self and self._bindings[kind].portable

    def __contains__(self, kind: object) -> bool:
        return kind in self._bindings

    def __iter__(self) -> Iterator[type[Any]]:
        return iter(self._bindings)

    def __len__(self) -> int:
        return len(self._bindings)

    def __repr__(self) -> str:
        return f"ResourceRegistry({', '.join(sorted(name_of(kind) for kind in self._bindings))})"

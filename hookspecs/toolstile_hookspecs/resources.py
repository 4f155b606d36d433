"""Resources: objects that handlers get by type, and their lifetime."""

# pyright: reportReturnType=false

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar, cast, overload, runtime_checkable

from toolstile_hookspecs._tools.field_checks import binding_faults, call_fault, type_faults
from toolstile_hookspecs.errors import DefinitionError

T = TypeVar("T")
D = TypeVar("D")

_WAITING = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


class Scope(Enum):
    """The lifetime of an instance."""

    SINGLETON = "singleton"
    """One for the session."""
    TOOL_CALL = "tool_call"
    """One for each call."""
    PROTOTYPE = "prototype"
    """One for each access."""


class ResourceResolver(Protocol):
    """Gives resources by type; builds them and their dependencies when first asked."""

    @overload
    def get(self, kind: type[T]) -> T: ...
    @overload
    def get(self, kind: type[T], default: D) -> T | D: ...
    def get(self, kind: type[Any], default: Any = ...) -> Any:
        """Return the resource of a type.

        Raises:
            UnboundResourceError: When nothing is bound and no default is given.
            CircularDependencyError: When bindings depend on one another in a circle.
            ResourceBusyError: When an exclusive one is held and cannot be waited for.
        """

    def __contains__(self, kind: type[object]) -> bool:
        """Tell whether something is bound for the type."""


class CallResources(ResourceResolver, Protocol):
    """The resources as a call sees them: transactional ones are its own branch."""

    async def aget(self, kind: type[T]) -> T:
        """Return the resource; wait for an exclusive one without blocking the loop."""

    def is_portable(self, kind: type[object]) -> bool:
        """Tell whether the resource of a type may cross into another process."""


class OpenResources(ResourceResolver, Protocol):
    """Open resources, whose singletons live until they are closed."""

    def tool_scope(self) -> AbstractContextManager[ResourceResolver]:
        """Enter the scope of one call; its instances are closed at the end."""

    def close(self) -> None:
        """Close all instances in reverse order, also after errors."""


@dataclass(frozen=True)
class Binding(Generic[T]):
    """The recipe of a resource.

    Args:
        kind: The type of the resource; may be a protocol.
        provider: Builds it from the resolver, which gives its dependencies.
        scope: The lifetime of an instance.
        portable: Whether it may cross into an isolated process; see `PortableProviders`.

    Example:
        >>> Binding(dict, lambda resources: {"url": "https://example.org"}).scope
        <Scope.SINGLETON: 'singleton'>
    """

    kind: type[T]
    provider: Callable[[ResourceResolver], T]
    scope: Scope = Scope.SINGLETON
    portable: bool = False

    def __post_init__(self) -> None:
        scopes: dict[object, Scope] = {scope.value: scope for scope in Scope}
        object.__setattr__(self, "scope", scopes.get(self.scope, self.scope))
        faults = type_faults(self, Binding, ("scope", "portable"))
        kind = cast("object", self.kind)
        if kind is None or isinstance(kind, str):
            faults.append("resources are asked for by their type; write Binding(Type, provider)")
        provider: Any = self.provider
        if not callable(provider) or call_fault(provider, None) is not None:
            faults.append(
                "its provider is not a function of the resolver; write lambda resources: ..., or "
                "Binding.instance(Type, value)"
            )
        elif any(waits(provider) for waits in _WAITING):
            faults.append(
                "its provider is async or yields, and nothing awaits it; return the resource, "
                "which may have close(). Open an awaited one in an async toolstile_lifespan"
            )
        if faults:
            raise DefinitionError(f"Binding for {self.kind!r}: {'; '.join(faults)}.")

    @classmethod
    def instance(cls, kind: type[T], value: T, *, portable: bool = False) -> Binding[T]:
        """Return a binding for an object that exists already; the host does not close it."""
        return _InstanceBinding(kind, lambda _: value, Scope.SINGLETON, portable)


@dataclass(frozen=True)
class _InstanceBinding(Binding[T]):
    """A binding whose instance belongs to its maker."""


def as_bindings(
    given: Mapping[type[Any], Any] | Iterable[Binding[Any]],
) -> tuple[Binding[Any], ...]:
    """Return the bindings that a mapping from type to instance or binding stands for.

    Raises:
        DefinitionError: When it is neither a mapping nor several bindings.
    """
    several: Any = given
    if isinstance(several, Mapping):
        several = [
            replace(cast("Any", value), kind=type_)
            if isinstance(value, Binding)
            else Binding[Any].instance(type_, value)
            for type_, value in cast("Mapping[type[Any], Any]", several).items()
        ]
    elif isinstance(several, str) or not hasattr(several, "__iter__"):
        several = [several]
    bindings: tuple[Any, ...] = tuple(several)
    if faults := [fault for binding in bindings for fault in binding_faults(binding)]:
        raise DefinitionError(f"Resources: {'; '.join(faults)}.")
    return bindings


def is_borrowed(binding: Binding[Any]) -> bool:
    """Tell whether the instance belongs to its maker, who closes it."""
    return isinstance(binding, _InstanceBinding)


@runtime_checkable
class Closeable(Protocol):
    """A resource that is closed when its scope ends."""

    def close(self) -> None:
        """Release all that it holds."""


@runtime_checkable
class PostConstruct(Protocol):
    """A resource that finishes its construction once its dependencies are there."""

    def post_construct(self) -> None:
        """Finish the construction."""

"""Resources: what handlers are given by type, how long it lives, how it takes part."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, overload, runtime_checkable

from toolstile_hookspecs._tools.field_checks import binding_faults, call_fault, type_faults
from toolstile_hookspecs.errors import DefinitionError

if TYPE_CHECKING:
    from toolstile_hookspecs.context import ToolContext

T = TypeVar("T")
D = TypeVar("D")


class Scope(Enum):
    """The lifetime of an instance."""

    SINGLETON = "singleton"
    """One for the session."""
    TOOL_CALL = "tool_call"
    """One for each call."""
    PROTOTYPE = "prototype"
    """One for each access."""


class ResourceResolver(Protocol):
    """Gives resources by type, building them and what they depend on when first asked."""

    @overload
    def get(self, kind: type[T]) -> T: ...
    @overload
    def get(self, kind: type[T], default: D) -> T | D: ...
    def get(self, kind: type[Any], default: Any = ...) -> Any:
        """Return the resource of a type.

        Raises:
            UnboundResourceError: When nothing is bound and no default is given.
            CircularDependencyError: When the bindings go in a circle; names it.
            ResourceBusyError: When an exclusive one is held and cannot be waited for.
        """
        ...

    def __contains__(self, kind: type[object]) -> bool:
        """Tell whether something is bound for the type."""
        ...


class CallResources(ResourceResolver, Protocol):
    """The resources as a call sees them: transactional ones are its own branch."""

    async def aget(self, kind: type[T]) -> T:
        """Return the resource, waiting without blocking the loop for an exclusive one."""
        ...

    def is_portable(self, kind: type[object]) -> bool:
        """Tell whether what is bound for the type may be pickled into another process."""
        ...


class OpenResources(ResourceResolver, Protocol):
    """Open resources, whose singletons live until they are closed."""

    def tool_scope(self) -> AbstractContextManager[ResourceResolver]:
        """Enter the scope of one call; its instances are closed when left."""
        ...

    def close(self) -> None:
        """Close everything built, in reverse order, also after errors."""
        ...


@dataclass(frozen=True)
class Binding(Generic[T]):
    """The recipe of a resource.

    Args:
        kind: The type it is asked for by; may be a protocol.
        provider: Makes it from the resolver, with which it gets what it depends on.
        scope: How long an instance lives.
        portable: Whether it may be pickled into an isolated process.

    Example:
        >>> Binding(dict, lambda resources: {"url": "https://example.org"}).scope
        <Scope.SINGLETON: 'singleton'>
    """

    kind: type[T]
    provider: Callable[[ResourceResolver], T]
    scope: Scope = Scope.SINGLETON
    portable: bool = False

    def __post_init__(self) -> None:
        """Check the type and the provider, and read the scope by its value."""
        scopes: dict[object, Scope] = {each.value: each for each in Scope}
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
        elif _waits(provider):
            faults.append(
                "its provider is async or yields, and nobody awaits it; return the resource, which "
                "may have close(). What has to be awaited is opened in an async toolstile_lifespan"
            )
        if faults:
            raise DefinitionError(f"Binding for {self.kind!r}: {'; '.join(faults)}.")

    @classmethod
    def instance(cls, kind: type[T], value: T, *, portable: bool = False) -> Binding[T]:
        """Return a binding for something that is there already and is not closed by the host."""
        return _InstanceBinding(kind, lambda _: value, Scope.SINGLETON, portable)


@dataclass(frozen=True)
class _InstanceBinding(Binding[T]):
    """A binding whose instance belongs to its maker."""


def _waits(provider: object) -> bool:
    return (
        inspect.iscoroutinefunction(provider)
        or inspect.isgeneratorfunction(provider)
        or inspect.isasyncgenfunction(provider)
    )


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
            value if isinstance(value, Binding) else Binding[Any].instance(type_, value)
            for type_, value in cast("Mapping[type[Any], Any]", several).items()
        ]
    elif isinstance(several, str) or not hasattr(several, "__iter__"):
        several = [several]
    bindings: tuple[Any, ...] = tuple(several)
    if faults := [fault for binding in bindings for fault in binding_faults(binding)]:
        raise DefinitionError(f"Resources: {'; '.join(faults)}.")
    return bindings


def is_borrowed(binding: Binding[Any]) -> bool:
    """Tell whether the instance belongs to its maker, who also closes it."""
    return isinstance(binding, _InstanceBinding)


@runtime_checkable
class Closeable(Protocol):
    """A resource to be closed when its scope ends."""

    def close(self) -> None:
        """Give back what it holds."""
        ...


@runtime_checkable
class PostConstruct(Protocol):
    """A resource with something to do once it is made and its dependencies are there."""

    def post_construct(self) -> None:
        """Finish the construction."""
        ...


class ResourceBranch(Protocol):
    """A call's own version of a `Branchable` resource; a `Participant` of the call.

    Optional are a method `diff`, see `SupportsDiff`, and a `name`, shown in place of the type.
    """

    @property
    def resource(self) -> Any:
        """The object that the handler receives."""
        ...

    def prepare(self) -> Awaitable[None] | None:
        """Do everything of the commit that can fail; raises `ConflictError` on a conflict."""
        ...

    def commit(self) -> Awaitable[None] | None:
        """Make the changes those of the base: the resource, or the parent's branch."""
        ...

    def rollback(self) -> Awaitable[None] | None:
        """Drop the changes."""
        ...


@runtime_checkable
class Branchable(Protocol):
    """A resource that holds state and gives each call a branch of it."""

    def branch(self, context: ToolContext, parent: Any | None) -> ResourceBranch:
        """Return a branch; a nested call's is of its parent's branch.

        Must cost O(1): it is called at a call's first access.
        """
        ...


@runtime_checkable
class Exclusive(Protocol):
    """A resource that holds state and that one call at a time may use.

    The host holds its lock from a call's first access to commit or rollback. Checks that may fail
    belong in `prepare`, which is optional: see `SupportsPrepare`.
    """

    def begin(self) -> Any:
        """Begin, or for a nested call begin a savepoint; returns what names it."""
        ...

    def commit(self, savepoint: Any) -> None:
        """Keep what was done since `begin` returned the savepoint."""
        ...

    def rollback(self, savepoint: Any) -> None:
        """Undo what was done since `begin` returned the savepoint."""
        ...


@runtime_checkable
class SupportsPrepare(Protocol):
    """An `Exclusive` resource that checks before the commit whether its changes can be kept.

    An exception rolls the whole call back; after one in `commit`, other parts may be kept already.
    """

    def prepare(self, savepoint: Any) -> None:
        """Do all of the commit that can fail, for what was done since the savepoint.

        Called for each savepoint, the newest first; for that of a nested call when it succeeds,
        and again with the call around it.
        """
        ...

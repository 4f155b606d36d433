"""Open resources: built when first asked for, along what they depend on, and closed at the end."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from toolstile.resources.teardown import (
    Failures,
    close_all,
    is_closeable,
    name_of,
    refuse_coroutine,
    unbound,
)
from toolstile.resources.transactional import Role, role_of
from toolstile_hookspecs.errors import CircularDependencyError, ResourceError
from toolstile_hookspecs.resources import Binding, PostConstruct, Scope, is_borrowed
from toolstile_hookspecs.transactions import Decider, SupportsRecovery

# --- Constructions


class Construction:
    """One construction under way.

    Args:
        kind: The type being made.
        asker: The construction that asked for it, or None.
    """

    __slots__ = ("asker", "done", "kind", "needs")

    def __init__(self, kind: type[Any], asker: Construction | None) -> None:
        self.kind = kind
        self.asker = asker
        self.done = False
        self.needs: list[Construction] = []

    def path_to(self, other: Construction) -> list[Construction] | None:
        """Return the constructions from this one to `other`, each needing the next."""
        if self is other:
            return [self]
        for need in self.needs:
            path = need.path_to(other)
            if path is not None:
                return [self, *path]
        return None


def refuse_circle(wanted: Construction, asker: Construction) -> None:
    """Raise if what is being made needs, in the end, the construction that asks for it.

    Raises:
        CircularDependencyError: Naming the circle.
    """
    path = wanted.path_to(asker)
    if path is not None:
        raise _circle([*(build.kind for build in path), wanted.kind])


def refuse_descent(kind: type[Any], asker: Construction | None) -> None:
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


# --- The cache of a scope


class Instance:
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


class InstanceCache:
    """The instances of one scope; guarded by the lock of the container it belongs to."""

    __slots__ = ("_owned", "building", "built", "closed", "known")

    def __init__(self) -> None:
        self.built: dict[type[Any], Instance] = {}
        self.building: dict[type[Any], Construction] = {}
        self.known: dict[int, Instance] = {}
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

    def give_to(self, other: InstanceCache) -> None:
        """Let another scope close what this one would have closed."""
        for instance in reversed(self.take()):
            other.own(instance)


# --- The container


T = TypeVar("T")
D = TypeVar("D")

_MISSING: Any = object()


class Container:
    """The resources of one session, as `ResourceRegistry.open()` returns them.

    A singleton is made once, also when several threads ask for it at once; while it is made,
    everything else can be asked for. Leaving the `with` block closes what was made.

    Args:
        bindings: How each type is made.
    """

    __slots__ = ("_bindings", "_running", "_shelf", "lock")

    def __init__(self, bindings: Mapping[type[Any], Binding[Any]]) -> None:
        self._bindings = bindings
        self._shelf = InstanceCache()
        self.lock = threading.Condition()
        self._running: dict[int, list[Construction]] = {}

    @overload
    def get(self, kind: type[T]) -> T: ...
    @overload
    def get(self, kind: type[T], default: D) -> T | D: ...
    def get(self, kind: type[Any], default: Any = _MISSING) -> Any:
        """Return the resource of a type.

        Raises:
            UnboundResourceError: When nothing is bound and no default is given.
            CircularDependencyError: When the bindings go in a circle; names it.
            ResourceError: When it lives for a call only, or everything is closed.
        """
        if default is not _MISSING and kind not in self._bindings:
            return default
        return self.find(kind).value

    def __contains__(self, kind: object) -> bool:
        """Tell whether something is bound for the type."""
        return kind in self._bindings

    def settled(self, kind: type[Any]) -> Instance | None:
        """Return a singleton that stands ready: the short way to what most calls ask for."""
        found = self._shelf.built.get(kind)
        return None if self._shelf.closed else found

    def keeps(self, kind: type[Any]) -> bool:
        """Tell whether asking again within a call gives the same instance again."""
        return self._bindings[kind].scope is not Scope.PROTOTYPE

    def present(self) -> list[Any]:
        """Return the singletons built so far, each once, in the order they were built."""
        with self.lock:
            return [found.value for found in self._shelf.known.values()]

    def tool_scope(self) -> ToolScope:
        """Enter the scope of one call; its instances are closed when left."""
        return ToolScope(self)

    def close(self) -> None:
        """Close everything built, newest first, also after errors.

        Raises:
            ResourceError: Listing everything that could not be closed.
        """
        self.empty(self._shelf).raise_any()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _leave(self.empty(self._shelf), error)

    def empty(self, shelf: InstanceCache) -> Failures:
        """Mark a scope as over and close what it owns."""
        with self.lock:
            shelf.closed = True
            owned = shelf.take()
            self.lock.notify_all()
        return close_all(owned)

    def find(
        self, kind: type[Any], scope: ToolScope | None = None, asker: Construction | None = None
    ) -> Instance:
        """Return what is bound for a type, built if need be.

        Args:
            kind: The type.
            scope: The scope of the call that asks, or None outside of one.
            asker: The construction that asks, or None.
        """
        found = self.settled(kind)
        if found is not None:
            return found
        binding = self._bindings.get(kind)
        if binding is None:
            raise unbound(kind, self._bindings)
        if binding.scope is Scope.PROTOTYPE:
            return self._make_fresh(binding, scope, asker)
        if binding.scope is Scope.SINGLETON:
            return self._make_once(binding, self._shelf, None, asker)
        if scope is None:
            raise self._outside(kind, asker)
        return self._make_once(binding, scope.shelf, scope, asker)

    def _make_once(
        self,
        binding: Binding[Any],
        shelf: InstanceCache,
        scope: ToolScope | None,
        asker: Construction | None,
    ) -> Instance:
        with self.lock:
            asker = self._asking(asker)
            while True:
                self._refuse_closed(shelf, binding.kind)
                found = shelf.built.get(binding.kind)
                if found is not None:
                    return found
                other = shelf.building.get(binding.kind)
                if other is None:
                    break
                self._wait_for(other, asker)
            build = self._begin(binding.kind, asker)
            shelf.building[binding.kind] = build
        try:
            return self._make(binding, shelf, scope, build)
        finally:
            with self.lock:
                del shelf.building[binding.kind]
                self._end(build)

    def _make_fresh(
        self, binding: Binding[Any], scope: ToolScope | None, asker: Construction | None
    ) -> Instance:
        shelf = self._shelf if scope is None else scope.shelf
        with self.lock:
            self._refuse_closed(shelf, binding.kind)
            asker = self._asking(asker)
            refuse_descent(binding.kind, asker)
            build = self._begin(binding.kind, asker)
        try:
            return self._make(binding, shelf, scope, build)
        finally:
            with self.lock:
                self._end(build)

    def _make(
        self,
        binding: Binding[Any],
        shelf: InstanceCache,
        scope: ToolScope | None,
        build: Construction,
    ) -> Instance:
        instance = binding.provider(_Resolver(self, scope, build))
        refuse_coroutine(instance, f"The provider of {name_of(binding.kind)}")
        with self.lock:
            known = self._shelf.known.get(id(instance)) or shelf.known.get(id(instance))
        borrowed = is_borrowed(binding)
        if known is None and not borrowed:
            self._finish(instance)
        with self.lock:
            if not shelf.closed:
                return self._keep(binding, shelf, instance, known)
        if known is None and not borrowed:
            close_all([instance]).raise_any()
        raise _closed(binding.kind)

    def _finish(self, instance: object) -> None:
        try:
            if isinstance(instance, PostConstruct) and not isinstance(instance, type):
                finishing: object = instance.post_construct()  # type: ignore[func-returns-value]
                refuse_coroutine(finishing, f"post_construct() of {name_of(type(instance))}")
            self._recover(instance)
        except BaseException as error:
            # Half built it stays nowhere, so whatever it already holds has to be given back here.
            note = close_all([instance]).text()
            if note:
                error.add_note(note)
            raise

    def _recover(self, instance: object) -> None:
        """Let a resource that was left in the middle of a commit ask what became of it."""
        decider: Any = Decider
        if decider in self._bindings and isinstance(instance, SupportsRecovery):
            instance.recover(lambda key: self.get(decider).decided(key))

    def _keep(
        self, binding: Binding[Any], shelf: InstanceCache, instance: Any, known: Instance | None
    ) -> Instance:
        found = known or Instance(instance, shared=binding.scope is Scope.SINGLETON)
        if known is None and not is_borrowed(binding) and is_closeable(instance):
            shelf.own(instance)
        if binding.scope is not Scope.PROTOTYPE:
            shelf.known[id(instance)] = found
            shelf.built[binding.kind] = found
        return found

    def _asking(self, asker: Construction | None) -> Construction | None:
        # Who asks the container itself, past the resolver it was given, is told by its thread.
        if asker is not None and not asker.done:
            return asker
        running = self._running.get(threading.get_ident())
        return running[-1] if running else None

    def _wait_for(self, other: Construction, asker: Construction | None) -> None:
        if asker is None:
            self.lock.wait()
            return
        refuse_circle(other, asker)
        asker.needs.append(other)
        try:
            self.lock.wait()
        finally:
            asker.needs.remove(other)

    def _begin(self, kind: type[Any], asker: Construction | None) -> Construction:
        build = Construction(kind, asker)
        if asker is not None:
            asker.needs.append(build)
        self._running.setdefault(threading.get_ident(), []).append(build)
        return build

    def _end(self, build: Construction) -> None:
        build.done = True
        if build.asker is not None:
            build.asker.needs.remove(build)
        running = self._running[threading.get_ident()]
        running.pop()
        if not running:
            del self._running[threading.get_ident()]
        self.lock.notify_all()

    def _refuse_closed(self, shelf: InstanceCache, kind: type[Any]) -> None:
        if shelf.closed or self._shelf.closed:
            raise _closed(kind)

    def _outside(self, kind: type[Any], asker: Construction | None) -> ResourceError:
        name = name_of(kind)
        while asker is not None and self._bindings[asker.kind].scope is not Scope.SINGLETON:
            asker = asker.asker
        if asker is None:
            return ResourceError(
                f"{name} lives for one tool call, and this is outside of one; "
                "ask for it within tool_scope()."
            )
        return ResourceError(
            f"{name_of(asker.kind)} is a singleton and cannot depend on {name}, which lives for "
            f"one tool call only; give {name} the scope SINGLETON, or {name_of(asker.kind)} the "
            "scope TOOL_CALL."
        )


class ToolScope:
    """The resources within one call: those that live for it, and all others.

    Costs next to nothing until something is asked for.

    Args:
        container: The open resources.
    """

    __slots__ = ("_closed", "_container", "_shelf")

    def __init__(self, container: Container) -> None:
        self._container = container
        self._shelf: InstanceCache | None = None
        self._closed = False

    @property
    def shelf(self) -> InstanceCache:
        """Where the instances of this scope stand."""
        if self._shelf is None:
            self._make_shelf()
        assert self._shelf is not None  # noqa: S101 - made just now
        return self._shelf

    @overload
    def get(self, kind: type[T]) -> T: ...
    @overload
    def get(self, kind: type[T], default: D) -> T | D: ...
    def get(self, kind: type[Any], default: Any = _MISSING) -> Any:
        """Return the resource of a type; see `Container.get`."""
        if self._closed:
            raise _closed(kind)
        if default is not _MISSING and kind not in self._container:
            return default
        return self._container.find(kind, self).value

    def __contains__(self, kind: object) -> bool:
        """Tell whether something is bound for the type."""
        return kind in self._container

    def leave(self) -> Failures:
        """End the scope, closing its instances; return what could not be closed."""
        self._closed = True
        return close_all(()) if self._shelf is None else self._container.empty(self._shelf)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _leave(self.leave(), error)

    def _make_shelf(self) -> None:
        shelf = InstanceCache()
        with self._container.lock:
            if self._shelf is None:
                shelf.closed = self._closed
                self._shelf = shelf


class _Resolver:
    """The resolver of a provider's dependencies; it knows the resource that asks."""

    __slots__ = ("_build", "_container", "_scope")

    def __init__(self, container: Container, scope: ToolScope | None, build: Construction) -> None:
        self._container = container
        self._scope = scope
        self._build = build

    @overload
    def get(self, kind: type[T]) -> T: ...
    @overload
    def get(self, kind: type[T], default: D) -> T | D: ...
    def get(self, kind: type[Any], default: Any = _MISSING) -> Any:
        if default is not _MISSING and kind not in self._container:
            return default
        return self._container.find(kind, self._scope, self._build).value

    def __contains__(self, kind: type[object]) -> bool:
        return kind in self._container


def _closed(kind: type[Any]) -> ResourceError:
    return ResourceError(
        f"{name_of(kind)} was asked for after the resources were closed; "
        "ask while they are open, within the `with` block."
    )


def _leave(failures: Failures, error: BaseException | None) -> None:
    # What went wrong within the block is the news; failures of closing must not hide it.
    if error is None:
        failures.raise_any()
    else:
        failures.add_to(error)

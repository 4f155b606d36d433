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
from toolstile_hookspecs.support.process import allowed_interrupts, deferred_interrupts
from toolstile_hookspecs.transactions import Decider, SupportsRecovery

# --- Constructions


class Construction:
    """One construction under way.

    Args:
        kind: The type being made.
        stack: The constructions of its thread, each asked for by the one before.

    Attributes:
        waits_for: The construction in another thread that it waits for.
    """

    __slots__ = ("kind", "stack", "waits_for")

    def __init__(self, kind: type[Any], stack: list[Construction]) -> None:
        self.kind = kind
        self.stack = stack
        self.waits_for: Construction | None = None


class _Thread(threading.local):
    """The constructions under way in this thread, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[Construction] = []


def _refuse_circle(wanted: Construction, stack: list[Construction]) -> None:
    """Raise if what is being made waits, in the end, for the thread that wants it.

    Raises:
        CircularDependencyError: Naming the circle.
    """
    kinds: list[type[Any]] = []
    each: Construction | None = wanted
    while each is not None and each in each.stack:
        kinds += [build.kind for build in each.stack[each.stack.index(each) :]]
        if each.stack is stack:
            circle = " -> ".join(name_of(kind) for kind in [*kinds, wanted.kind])
            raise CircularDependencyError(
                f"Resources depend on one another in a circle: {circle}. "
                "Let one of them do without the next, or get it only when it is used."
            )
        each = each.stack[-1].waits_for


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

    __slots__ = ("building", "built", "closed", "known", "owned")

    def __init__(self) -> None:
        self.built: dict[type[Any], Instance] = {}
        self.building: dict[type[Any], Construction] = {}
        self.known: dict[int, Instance] = {}
        self.closed = False
        self.owned: list[object] = []
        """The instances to close with this scope, oldest first."""


# --- The container


T = TypeVar("T")
D = TypeVar("D")

_MISSING: Any = object()


class OpenScope:
    """Resources that can be asked for; leaving the `with` block closes what was made for it."""

    __slots__ = ()

    def __contains__(self, kind: object) -> bool:
        """Tell whether something is bound for the type."""
        raise NotImplementedError

    def find(self, kind: type[Any]) -> Instance:
        """Return what is bound for a type, built if need be."""
        raise NotImplementedError

    def leave(self) -> Failures:
        """End the scope, closing its instances; return what could not be closed."""
        raise NotImplementedError

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
        if default is not _MISSING and kind not in self:
            return default
        return self.find(kind).value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failures = self.leave()
        if error is None:
            failures.raise_any()
        else:
            # The error within the block comes first; failures of closing must not hide it.
            failures.add_to(error)


class Container(OpenScope):
    """The resources of one session, as `ResourceRegistry.open()` returns them.

    A singleton is made once, also when several threads ask for it at once; while it is made,
    everything else can be asked for.

    Args:
        bindings: How each type is made.
    """

    __slots__ = ("_bindings", "_shelf", "_thread", "lock")

    def __init__(self, bindings: Mapping[type[Any], Binding[Any]]) -> None:
        self._bindings = bindings
        self._shelf = InstanceCache()
        self.lock = threading.Condition()
        self._thread = _Thread()

    def __contains__(self, kind: object) -> bool:
        """Tell whether something is bound for the type."""
        return kind in self._bindings

    def is_portable(self, kind: type[object]) -> bool:
        """Tell whether what is bound for a type may be pickled into another process."""
        binding = self._bindings.get(kind)
        return binding is not None and binding.portable

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
        self.leave().raise_any()

    def leave(self) -> Failures:
        """Close everything built, newest first; return what could not be closed."""
        return self.empty(self._shelf)

    def empty(self, shelf: InstanceCache) -> Failures:
        """Mark a scope as over and close what it owns."""
        with self.lock:
            shelf.closed = True
            owned, shelf.owned = shelf.owned, []
            self.lock.notify_all()
        return close_all(reversed(owned))

    def find(self, kind: type[Any], scope: ToolScope | None = None) -> Instance:
        """Return what is bound for a type, built if need be.

        Args:
            kind: The type.
            scope: The scope of the call that asks, or None outside of one.
        """
        found = self.settled(kind)
        if found is not None:
            return found
        binding = self._bindings.get(kind)
        if binding is None:
            raise unbound(kind, self._bindings)
        if binding.scope is Scope.SINGLETON:
            scope = None
        elif binding.scope is Scope.TOOL_CALL and scope is None:
            raise self._outside(kind)
        with deferred_interrupts():
            return self._make_once(binding, scope)

    def _make_once(self, binding: Binding[Any], scope: ToolScope | None) -> Instance:
        """Make an instance, unless it is there or another thread makes it; then wait for that."""
        kind, stack = binding.kind, self._thread.stack
        shelf = self._shelf if scope is None else scope.shelf
        with self.lock:
            while True:
                if shelf.closed or self._shelf.closed:
                    raise _closed(kind)
                if (found := shelf.built.get(kind)) is not None:
                    return found
                if (other := shelf.building.get(kind)) is None:
                    break
                self._wait_for(other)
            build = Construction(kind, stack)
            if self.keeps(kind):
                shelf.building[kind] = build
            elif (outer := next((each for each in stack if each.kind is kind), None)) is not None:
                _refuse_circle(outer, stack)
            stack.append(build)
        try:
            return self._make(binding, shelf, scope)
        finally:
            with self.lock:
                shelf.building.pop(kind, None)
                stack.pop()
                self.lock.notify_all()

    def _make(
        self, binding: Binding[Any], shelf: InstanceCache, scope: ToolScope | None
    ) -> Instance:
        with allowed_interrupts():
            instance = binding.provider(self if scope is None else scope)
        refuse_coroutine(instance, f"The provider of {name_of(binding.kind)}")
        with self.lock:
            known = self._shelf.known.get(id(instance)) or shelf.known.get(id(instance))
        is_new = known is None and not is_borrowed(binding)
        if is_new:
            self._finish(instance)
        with self.lock:
            if not shelf.closed:
                return self._keep(binding, shelf, instance, known)
        if is_new:
            close_all([instance]).raise_any()
        raise _closed(binding.kind)

    def _finish(self, instance: object) -> None:
        try:
            with allowed_interrupts():
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
            shelf.owned.append(instance)
        if binding.scope is not Scope.PROTOTYPE:
            shelf.known[id(instance)] = found
            shelf.built[binding.kind] = found
        return found

    def _wait_for(self, other: Construction) -> None:
        stack = self._thread.stack
        _refuse_circle(other, stack)
        if stack:
            stack[-1].waits_for = other
        try:
            with allowed_interrupts():
                self.lock.wait()
        finally:
            if stack:
                stack[-1].waits_for = None

    def _outside(self, kind: type[Any]) -> ResourceError:
        name = name_of(kind)
        for asker in reversed(self._thread.stack):
            if self._bindings[asker.kind].scope is Scope.SINGLETON:
                singleton = name_of(asker.kind)
                return ResourceError(
                    f"{singleton} is a singleton and cannot depend on {name}, which lives for one "
                    f"tool call only; give {name} the scope SINGLETON, or {singleton} the scope "
                    "TOOL_CALL."
                )
        return ResourceError(
            f"{name} lives for one tool call, and this is outside of one; ask for it within "
            "tool_scope()."
        )


class ToolScope(OpenScope):
    """The resources within one call: those that live for it, and all others.

    Args:
        container: The open resources.

    Attributes:
        shelf: The instances that live for the call.
    """

    __slots__ = ("_container", "shelf")

    def __init__(self, container: Container) -> None:
        self._container = container
        self.shelf = InstanceCache()

    def __contains__(self, kind: object) -> bool:
        """Tell whether something is bound for the type."""
        return kind in self._container

    def find(self, kind: type[Any]) -> Instance:
        """Return what is bound for a type, built if need be."""
        return self._container.find(kind, self)

    def leave(self) -> Failures:
        """End the scope, closing its instances; return what could not be closed."""
        return self._container.empty(self.shelf)


def _closed(kind: type[Any]) -> ResourceError:
    return ResourceError(
        f"{name_of(kind)} was asked for after the resources were closed; "
        "ask while they are open, within the `with` block."
    )

"""Open resources: built with their dependencies when first requested, closed at the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar, overload

from toolstile.resources.teardown import (
    Failures,
    LoopOf,
    close_all,
    closing_method,
    name_of,
    refuse_coroutine,
    unbound,
)
from toolstile.resources.transactional import Role, role_of
from toolstile_hookspecs.codecs import place_of
from toolstile_hookspecs.errors import CircularDependencyError, ConfigurationError, ResourceError
from toolstile_hookspecs.resources import Binding, PostConstruct, Scope, is_borrowed
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.process import allowed_interrupts, deferred_interrupts
from toolstile_hookspecs.transactions import Decider, SupportsRecovery

# --- Constructions


class Construction:
    """One construction under way, asked for by those before it on its thread's `stack`.

    It `waits_for` a construction in another thread, if any.
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
    """Raise `CircularDependencyError` if a resource waits for the thread that requests it."""
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


# --- Instances


class Instance:
    """An instance that is ready to be given; `shared` by calls if it is a singleton."""

    __slots__ = ("role", "shared", "value")

    def __init__(self, value: Any, *, shared: bool) -> None:
        self.value = value
        self.shared = shared
        self.role: Role = role_of(value)


# --- The container


T = TypeVar("T")
D = TypeVar("D")

_MISSING: Any = object()
_DECIDERS: dict[Any, str] = {SessionStore: "the session store", Decider: "the ledger"}


class OpenScope:
    """Resources to request; leaving the `with` block closes those built in it.

    The lock guards the instances, also of other scopes.
    """

    __slots__ = ("bindings", "building", "built", "closed", "known", "lock", "loop_of", "owned")

    def __init__(
        self, bindings: Mapping[type[Any], Binding[Any]], lock: threading.Condition
    ) -> None:
        self.bindings = bindings
        self.lock = lock
        self.built: dict[type[Any], Instance] = {}  # the instances that live for this scope
        self.building: dict[type[Any], Construction] = {}
        self.known: dict[int, Instance] = {}  # by the ids of the instances
        self.owned: list[object] = []  # to close with this scope, oldest first
        self.closed = False
        self.loop_of: LoopOf | None = None  # gives the loop on which async resources are closed

    def __contains__(self, kind: object) -> bool:
        return kind in self.bindings

    def find(self, kind: type[Any]) -> Instance:
        raise NotImplementedError

    def leave(self) -> Failures:
        """Close everything built for it, newest first; return the failures."""
        with self.lock:
            self.closed = True
            owned, self.owned = self.owned, []
            self.lock.notify_all()
        return close_all(reversed(owned), self.loop_of)

    @overload
    def get(self, kind: type[T]) -> T: ...
    @overload
    def get(self, kind: type[T], default: D) -> T | D: ...
    def get(self, kind: type[Any], default: Any = _MISSING) -> Any:
        if default is not _MISSING and kind not in self:
            return default
        return self.find(kind).value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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
    """

    __slots__ = ("_thread",)

    def __init__(self, bindings: Mapping[type[Any], Binding[Any]]) -> None:
        super().__init__(bindings, threading.Condition())
        self._thread = _Thread()

    def is_portable(self, kind: type[object]) -> bool:
        binding = self.bindings.get(kind)
        return binding is not None and binding.portable

    def portable_provider(self, kind: type[object]) -> str | None:
        provider = self.bindings[kind].provider
        return place_of(getattr(provider, "__wrapped__", provider))

    def settled(self, kind: type[Any]) -> Instance | None:
        """Return a singleton that is built already: the quick path of most requests."""
        found = self.built.get(kind)
        return None if self.closed else found

    def keeps(self, kind: type[Any]) -> bool:
        """Tell whether asking again within a call gives the same instance again."""
        return self.bindings[kind].scope is not Scope.PROTOTYPE

    def present(self) -> list[Any]:
        """Return the singletons given or built so far, each once, in the order they were."""
        for kind, binding in self.bindings.items():
            if is_borrowed(binding) and not self.closed:
                self.find(kind)
        with self.lock:
            return [found.value for found in self.known.values()]

    def tool_scope(self) -> ToolScope:
        return ToolScope(self)

    def close(self) -> None:
        self.leave().raise_any()

    def find(self, kind: type[Any], scope: OpenScope | None = None) -> Instance:
        """Return the resource of a type, built if necessary, for a call or outside of calls."""
        found = self.settled(kind)
        if found is not None:
            return found
        binding = self.bindings.get(kind)
        if binding is None:
            raise unbound(kind, self.bindings)
        if binding.scope is Scope.TOOL_CALL and scope is None:
            raise self._outside(kind)
        if binding.scope is Scope.SINGLETON or scope is None:
            scope = self
        with deferred_interrupts():
            return self._make_once(binding, scope)

    def _make_once(self, binding: Binding[Any], scope: OpenScope) -> Instance:
        """Make an instance, unless it is there or another thread makes it; then wait for that."""
        kind, stack = binding.kind, self._thread.stack
        with self.lock:
            while True:
                if scope.closed or self.closed:
                    raise _closed(kind)
                if (found := scope.built.get(kind)) is not None:
                    return found
                if (other := scope.building.get(kind)) is None:
                    break
                self._wait_for(other)
            build = Construction(kind, stack)
            if self.keeps(kind):
                scope.building[kind] = build
            elif (outer := next((each for each in stack if each.kind is kind), None)) is not None:
                _refuse_circle(outer, stack)
            stack.append(build)
        try:
            return self._make(binding, scope)
        finally:
            with self.lock:
                scope.building.pop(kind, None)
                stack.pop()
                self.lock.notify_all()

    def _make(self, binding: Binding[Any], scope: OpenScope) -> Instance:
        with allowed_interrupts():
            instance = binding.provider(scope)
        refuse_coroutine(instance, f"The provider of {name_of(binding.kind)}")
        with self.lock:
            known = self.known.get(id(instance)) or scope.known.get(id(instance))
        is_new = known is None and not is_borrowed(binding)
        if is_new:
            self._finish(binding.kind, instance)
        elif known is None:
            self.check_file(binding.kind, instance)
        with self.lock:
            if not scope.closed:
                found = known or Instance(instance, shared=binding.scope is Scope.SINGLETON)
                if is_new and closing_method(instance) is not None:
                    scope.owned.append(instance)
                if self.keeps(binding.kind):
                    scope.known[id(instance)] = scope.built[binding.kind] = found
                return found
        if is_new:
            close_all([instance], self.loop_of).raise_any()
        raise _closed(binding.kind)

    def _finish(self, kind: type[Any], instance: object) -> None:
        try:
            self.check_file(kind, instance)
            with allowed_interrupts():
                if isinstance(instance, PostConstruct) and not isinstance(instance, type):
                    finishing: object = instance.post_construct()  # type: ignore[func-returns-value]
                    refuse_coroutine(finishing, f"post_construct() of {name_of(type(instance))}")
                self._recover(instance)
        except BaseException as error:
            # Because nothing keeps a half-built resource, its parts are closed here.
            note = close_all([instance], self.loop_of).text()
            if note:
                error.add_note(note)
            raise

    def check_file(self, kind: type[Any], locking: object) -> None:
        """Refuse with a remedy a resource, or its provider, that locks the file of decisions."""
        locked: object = getattr(locking, "locked_file", None)
        if not isinstance(locked, str | Path):
            return
        file = os.path.realpath(locked)
        for decider, name in _DECIDERS.items():
            with suppress(CircularDependencyError):  # by a resource that depends on this one
                database = getattr(self.get(decider, None), "database", None)
                if database is not None and os.path.realpath(database) == file:
                    raise ConfigurationError(
                        f"{name_of(kind)} locks {file} while a call has it, and {name} "
                        "records in that file when the call ends, so the call would wait for "
                        "itself. Give one of the two another file."
                    )

    def recover_present(self) -> None:
        """Let all that is there finish the commits that other hosts have decided."""
        for instance in () if self.closed else self.present():
            self._recover(instance)

    def _recover(self, instance: object) -> None:
        """Let a resource that was left in the middle of a commit find out the decision."""
        if isinstance(instance, SupportsRecovery) and any(
            each in self.bindings for each in _DECIDERS
        ):
            instance.recover(self.was_decided)

    def was_decided(self, key: str) -> bool | None:
        """Ask the session store, then the ledger, whether the call of a key was committed."""
        answers = (self.get(each).decided(key) for each in _DECIDERS if each in self.bindings)
        return next((answer for answer in answers if answer is not None), None)

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
            if self.bindings[asker.kind].scope is Scope.SINGLETON:
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


class LendingContainer(Container):
    """The resources of another container, with some values in place of others."""

    __slots__ = ("_below",)

    def __init__(self, below: Container, values: Mapping[type[Any], object]) -> None:
        lent = {kind: Binding[Any].instance(kind, value) for kind, value in values.items()}
        super().__init__({**below.bindings, **lent})
        self.lock, self.loop_of, self._below = below.lock, below.loop_of, below
        for kind, value in values.items():
            below.check_file(kind, value)
            self.built[kind] = Instance(value, shared=True)

    def settled(self, kind: type[Any]) -> Instance | None:
        return self.built.get(kind) or self._below.settled(kind)

    def find(self, kind: type[Any], scope: OpenScope | None = None) -> Instance:
        return self.built.get(kind) or self._below.find(kind, scope)

    def present(self) -> list[Any]:
        return [*(each.value for each in self.built.values()), *self._below.present()]


class ToolScope(OpenScope):
    """The resources within one call: the call's own, and all others."""

    __slots__ = ("_container",)

    def __init__(self, container: Container) -> None:
        super().__init__(container.bindings, container.lock)
        self.loop_of = container.loop_of
        self._container = container

    def find(self, kind: type[Any]) -> Instance:
        return self._container.find(kind, self)


def _closed(kind: type[Any]) -> ResourceError:
    return ResourceError(
        f"{name_of(kind)} was asked for after the resources were closed; "
        "ask while they are open, within the `with` block."
    )

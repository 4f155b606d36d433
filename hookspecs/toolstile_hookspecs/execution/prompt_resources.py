"""The resources of a prompt: its bindings, which an application may hold open itself."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, ClassVar, cast

from toolstile_hookspecs.errors import StateError, UnboundResourceError
from toolstile_hookspecs.resources import Binding, OpenResources, ResourceResolver, Scope
from toolstile_hookspecs.support.process import renewed_in_forks

_lock = renewed_in_forks(__name__, "_lock", threading.Lock)


class PromptResources(tuple[Binding[Any], ...]):  # noqa: SLOT001 - it holds what is open
    """The bindings of a prompt; entering them opens them.

    Executors that are made in the block use its singletons, and leave them open. Blocks may be
    nested: the outermost closes what was built, newest first.
    """

    # Opens bindings; the host sets it, since the contract builds nothing.
    open_with: ClassVar[Any] = None
    _opened: Any = None
    _blocks = 0

    def __enter__(self) -> OpenResources:
        """Open the bindings, and return what gives the resources by type."""
        with _lock:
            if self._opened is None:
                if self.open_with is None:
                    told = "Resources are opened by a host. Import toolstile, then retry."
                    raise StateError(told)
                self._opened = self.open_with(self)
            self._blocks += 1
            return cast("OpenResources", self._opened)

    def __exit__(self, *error: object) -> None:
        """Close what was built, unless a block around this one goes on."""
        with _lock:
            self._blocks -= 1
            if self._blocks:
                return
            opened, self._opened = self._opened, None
        opened.__exit__(*error)

    def for_executor(self) -> tuple[Binding[Any], ...]:
        """Return the bindings for an executor that is made now; open singletons are lent."""
        opened = self._opened
        if opened is None:
            return self
        return tuple(
            _lent(binding, opened) if binding.scope is Scope.SINGLETON else binding
            for binding in self
        )


def _lent(binding: Binding[Any], opened: OpenResources) -> Binding[Any]:
    lent = Binding[Any].instance(binding.kind, None, portable=binding.portable)

    def provider(_: ResourceResolver) -> Any:
        return opened.get(binding.kind)

    provider.__wrapped__ = binding.provider  # type: ignore[attr-defined]  # another process has its own
    return replace(lent, provider=provider)


class NoResources:
    """The resources of a context made by hand without any."""

    def get(self, kind: type[Any], default: Any = ...) -> Any:
        """Return the default, or raise `UnboundResourceError`."""
        if default is ...:
            told = f"No resource is bound for {kind.__qualname__}: this context has none. Give it "
            raise UnboundResourceError(f"{told}some with ToolContext(resources=...).")
        return default

    def __contains__(self, kind: type[object]) -> bool:
        return False

    async def aget(self, kind: type[Any]) -> Any:
        """Raise `UnboundResourceError`."""
        return self.get(kind)

    def is_portable(self, kind: type[object]) -> bool:  # noqa: ARG002 - the protocol's
        """Return False: nothing is bound."""
        return False

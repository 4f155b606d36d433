"""Parts of a prompt: its resources, which an application may open, and its sections' text."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, cast

from toolstile_hookspecs.errors import StateError, UnboundResourceError
from toolstile_hookspecs.resources import Binding, OpenResources, ResourceResolver, Scope
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.support.process import renewed_in_forks

_lock = renewed_in_forks(__name__, "_lock", threading.Lock)


class PromptResources(tuple[Binding[Any], ...]):  # noqa: SLOT001 - it has attributes
    """The bindings of a prompt; entering them opens them.

    Executors that are made in the block use its singletons, and leave them open. Of nested blocks
    the outermost closes the resources, newest first.
    """

    # Opens bindings; the host sets it, since the contract builds nothing.
    open_with: ClassVar[Any] = None
    _opened: Any = None
    _blocks = 0

    def __enter__(self) -> OpenResources:
        with _lock:
            if self._opened is None:
                if self.open_with is None:
                    msg = "Resources are opened by a host. Import toolstile, then retry."
                    raise StateError(msg)
                self._opened = self.open_with(self)
            self._blocks += 1
            return cast("OpenResources", self._opened)

    def __exit__(self, *error: object) -> None:
        """Close the resources, unless a block around this one is still open."""
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


@dataclass(frozen=True, slots=True)
class SectionText:
    """The present text of a section.

    Args:
        body: The whole text.
        summary: The text while the section is shown as a summary.
    """

    body: str
    summary: str


class SupportsSessionText(Protocol):
    """An optional part of a `Section`, whose text then depends on the session and its resources.

    Each rendering of a prompt asks for the text, so cache expensive parts.
    """

    def text_in(
        self, session: SessionProtocol | None, resources: ResourceResolver | None, body: str
    ) -> SectionText:
        """Return the text for a session.

        Args:
            session: The session, or None.
            resources: The resources of the executor or of the call, or None.
            body: The text of `render_body`, which a file of prompt overrides may have replaced.
        """
        ...


class _Section(Protocol):
    def render_body(self, params: Mapping[str, Any]) -> str: ...


def section_text(  # noqa: PLR0913 - all are known to `Prompt.render`
    section: _Section,
    path: str,
    params: Mapping[str, Any],
    session: SessionProtocol | None,
    resources: ResourceResolver | None,
    *,
    whole: bool,
) -> str:
    """Return the text of a section for a model: the whole, or the summary with a hint.

    `path` has the keys from the outermost section on, joined with dots.
    """
    # By name, because a section with parts replaced by the host has the original's method.
    text_in = getattr(section, "text_in", None)
    shown: SectionText | None = text_in and text_in(session, resources, section.render_body(params))
    if whole:
        return section.render_body(params) if shown is None else shown.body
    summary = getattr(section, "summary", None) if shown is None else shown.summary
    return (
        f"{summary or ''}\n\n(This is a summary. Call open_sections with {path!r} for all of it.)"
    )


def two_places(one: str, other: str) -> str:
    """Return the places of a tool in two sections, or twice in one, by their keys."""
    return f"twice in section {one!r}" if one == other else f"in section {one!r} and in {other!r}"

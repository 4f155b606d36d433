"""Sections: guidance and tools together, and the rules that go with them."""

# pyright: reportReturnType=false

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from toolstile_hookspecs._tools.field_checks import section_faults
from toolstile_hookspecs.errors import DefinitionError, PromptValidationError
from toolstile_hookspecs.policies import ToolPolicy
from toolstile_hookspecs.resources import Binding
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.tools import Tool

P = TypeVar("P", default=Any)


class Section(Protocol):
    """A part of a prompt: guidance, the tools it speaks of, and their rules and resources."""

    @property
    def key(self) -> str:
        """The key, unique among its siblings."""

    @property
    def title(self) -> str:
        """The heading."""

    @property
    def tools(self) -> Sequence[Tool[Any, Any]]:
        """The tools it offers."""

    @property
    def policies(self) -> Sequence[ToolPolicy]:
        """The rules over its tools."""

    @property
    def resources(self) -> Sequence[Binding[Any]]:
        """The resources for its tools."""

    @property
    def children(self) -> Sequence[Section]:
        """The sections within it."""

    def is_enabled(self, session: SessionProtocol | None) -> bool:
        """Tell whether it is part of the prompt now."""

    def setup(self, session: SessionProtocol) -> None:
        """Register the slices and reducers its tools need, again in each executor of a session.

        A reducer registered again replaces the first; a slice seeded again loses its items.
        """

    def render_body(self, params: Mapping[str, Any]) -> str:
        """Return its text; raises `PromptValidationError` for a placeholder without a value."""


class Visibility(Enum):
    """The part of a section that the model sees."""

    FULL = "full"
    """Its text, its tools and the sections within it."""
    SUMMARY = "summary"
    """Its summary only, until the model asks to open it."""


@dataclass(frozen=True, slots=True)
class OpenedSections:
    """The summarised sections that were opened in a session; a slice of it.

    Args:
        paths: The keys from the outermost section on, joined with dots.
    """

    paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, session: SessionProtocol | None) -> frozenset[str]:
        """Return the paths of the sections that are open in a session."""
        latest = session[cls].latest() if session is not None else None
        return latest.paths if latest is not None else frozenset()


@dataclass(frozen=True, kw_only=True)
class MarkdownSection(Generic[P]):
    """A section whose text is Markdown with `$name` placeholders.

    Write `MarkdownSection[Params]` to say which params fill them.

    Args:
        key: The key, unique among its siblings and without dots, which join keys to paths.
        title: The heading.
        template: The text; `$name` and `${name}` are filled from the prompt's params.
        tools: The tools it offers.
        policies: The rules over its tools.
        resources: The resources for its tools.
        children: The sections within it.
        enabled: Decides from the session whether it is part of the prompt now.
        on_session: Registers slices and reducers on a session, in each of its executors.
        visibility: Whether the model sees all of it or, at first, its summary.
        summary: The text shown at first; needed for `Visibility.SUMMARY`.
        accepts_overrides: Whether its text may be overridden.

    Raises:
        DefinitionError: When key, title or summary is missing, or a field has another type.

    Example:
        >>> MarkdownSection(key="who", title="Who", template="You are $name.").render_body(
        ...     {"name": "Ada"})
        'You are Ada.'
    """

    key: str
    title: str
    template: str = ""
    tools: Sequence[Tool[Any, Any]] = ()
    policies: Sequence[ToolPolicy] = ()
    resources: Sequence[Binding[Any]] = ()
    children: Sequence[Section] = ()
    enabled: Callable[[SessionProtocol | None], bool] | None = None
    on_session: Callable[[SessionProtocol], None] | None = None
    visibility: Visibility = Visibility.FULL
    summary: str | None = None
    accepts_overrides: bool = True

    def __post_init__(self) -> None:
        by_value: dict[object, Visibility] = {member.value: member for member in Visibility}
        visibility = by_value.get(self.visibility, self.visibility)
        object.__setattr__(self, "visibility", visibility)
        if faults := section_faults(self, MarkdownSection):
            raise DefinitionError(f"Section {self.key or self.title!r}: {'; '.join(faults)}.")

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The names of the params that its text needs, in order."""
        return tuple(string.Template(self.template).get_identifiers())

    def is_enabled(self, session: SessionProtocol | None) -> bool:
        """Tell whether it is part of the prompt now."""
        return self.enabled is None or self.enabled(session)

    def setup(self, session: SessionProtocol) -> None:
        """Register the slices and reducers its tools need."""
        if self.on_session is not None:
            self.on_session(session)

    def render_body(self, params: Mapping[str, Any]) -> str:
        """Return its text with the placeholders filled; see `Section.render_body`."""
        return fill(self.template, params, self.key)


def fill(template: str, params: Mapping[str, Any], key: str) -> str:
    """Return a section's template with its placeholders filled.

    Raises:
        PromptValidationError: For a placeholder without a value; names the section.
    """
    try:
        return string.Template(template).substitute(params)
    except (KeyError, ValueError) as error:
        missing = f"the placeholder ${error.args[0]} has no value"
        what = missing if isinstance(error, KeyError) else str(error)
        msg = f"Section {key!r}: {what}; bind it, or write $$ for a dollar sign."
        raise PromptValidationError(msg) from None

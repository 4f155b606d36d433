"""Sections: guidance and tools together, and the rules that go with them."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Protocol

from typing_extensions import TypeVar

from toolstile_hookspecs._tools.field_checks import call_fault, type_faults
from toolstile_hookspecs.errors import DefinitionError, PromptValidationError
from toolstile_hookspecs.policies import ToolPolicy
from toolstile_hookspecs.resources import Binding, refuse_other_than_binding
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.tools import Tool


def several_faults(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the fields that should hold several things and hold something else."""
    for name, value in fields.items():
        if not isinstance(value, Iterable):
            yield f"{name} is not several; write a list, {name}=[...]"


def two_places(one: str, other: str) -> str:
    """Return where a tool stands that two sections have, or one has twice.

    Args:
        one: The key of the one section.
        other: That of the other, which may be the same.
    """
    return f"twice in section {one!r}" if one == other else f"in section {one!r} and in {other!r}"


# --- Sections


P = TypeVar("P", default=Any)

# Authors' mistakes are caught whatever the annotations promise, so the check is a dynamic one.
_TOOL: Final[Any] = Tool
_FUNCTIONS: Final = ("enabled", "on_session")
_SEVERAL: Final = ("tools", "policies", "resources", "children")
_TEXTS: Final = ("key", "title", "template", "summary")
_TYPED: Final = (*_TEXTS, *_FUNCTIONS, "visibility", "accepts_overrides")


class Section(Protocol):
    """A part of a prompt that bundles guidance with what it speaks of."""

    @property
    def key(self) -> str:
        """The key, unique among its siblings."""
        ...

    @property
    def title(self) -> str:
        """Its heading."""
        ...

    @property
    def tools(self) -> Sequence[Tool[Any, Any]]:
        """The tools it offers."""
        ...

    @property
    def policies(self) -> Sequence[ToolPolicy]:
        """The rules over its tools."""
        ...

    @property
    def resources(self) -> Sequence[Binding[Any]]:
        """The resources for its tools."""
        ...

    @property
    def children(self) -> Sequence[Section]:
        """The sections within it."""
        ...

    def is_enabled(self, session: SessionProtocol | None) -> bool:
        """Tell whether it is part of the prompt now."""
        ...

    def setup(self, session: SessionProtocol) -> None:
        """Register the slices and reducers its tools need, again in each executor of a session.

        A reducer registered again replaces the first; seeding a slice again would undo its items.
        """
        ...

    def render_body(self, params: Mapping[str, Any]) -> str:
        """Return its text; raises `PromptValidationError` for a placeholder without a value."""
        ...


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
        key: What finds it; unique among its siblings, and without dots, which join keys to paths.
        title: Its heading.
        template: Its text; `$name` and `${name}` are filled from the prompt's params.
        tools: The tools it offers.
        policies: The rules over its tools.
        resources: What its tools are given.
        children: The sections within it.
        enabled: Decides from the session whether it is part of the prompt now.
        on_session: Registers slices and reducers on a session, again in each of its executors.
        visibility: Whether the model is shown all of it or, at first, its summary.
        summary: What it is shown instead; needed for `Visibility.SUMMARY`.
        accepts_overrides: Whether its text may be overridden.

    Raises:
        DefinitionError: When key, title or summary is missing, a tool is none, or a field holds
            something of another kind.

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
        """Check what can be checked before anything is rendered."""
        where = f"Section {self.key!r}"
        by_value: dict[object, Visibility] = {each.value: each for each in Visibility}
        visibility = by_value.get(self.visibility, self.visibility)
        object.__setattr__(self, "visibility", visibility)
        faults = [
            *type_faults(self, MarkdownSection, _TYPED),
            *(f"{name} does not take the session" for name in _FUNCTIONS if self._ignores(name)),
            *several_faults({name: getattr(self, name) for name in _SEVERAL}),
        ]
        if faults:
            raise DefinitionError(f"{where}: {'; '.join(faults)}.")
        if not self.key or not self.title.strip():
            msg = f"Section {self.key or self.title!r}: give it both a key and a title."
            raise DefinitionError(msg)
        if self.visibility is Visibility.SUMMARY and not (self.summary or "").strip():
            raise DefinitionError(
                f"{where} is shown as a summary but has none; give it summary=..."
            )
        for each in self.tools:
            if not isinstance(each, _TOOL):
                raise DefinitionError(f"{where}: {each!r} is not a Tool; decorate it with @tool.")
        for binding in self.resources:
            refuse_other_than_binding(where, binding)
        refuse_other_than_sections(where, self.children)

    def _ignores(self, name: str) -> bool:
        function = getattr(self, name)
        return callable(function) and call_fault(function, None) is not None

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
        """Return its text with the placeholders filled."""
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


def refuse_other_than_sections(where: str, sections: Any) -> None:
    """Raise `DefinitionError` for the first that is not a section, naming where it was given."""
    if _is_section(sections) or not hasattr(sections, "__iter__"):
        raise DefinitionError(f"{where}: sections are given in a list; write [...] around it.")
    for each in sections:
        if isinstance(each, _TOOL):
            raise DefinitionError(
                f"{where}: {each.name!r} is a tool, and belongs into a section: "
                "MarkdownSection(key=..., title=..., tools=[...])."
            )
        if not _is_section(each):
            raise DefinitionError(
                f"{where}: {each!r} is not a section; write MarkdownSection(key=..., title=...)."
            )


def _is_section(value: object) -> bool:
    return all(hasattr(value, name) for name in ("key", "title", "tools", "children"))

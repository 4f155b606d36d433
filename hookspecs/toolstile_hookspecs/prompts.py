"""Prompts: trees of sections, bound to params and rendered for a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic import BaseModel

from toolstile_hookspecs.errors import DefinitionError, PromptValidationError
from toolstile_hookspecs.policies import ToolPolicy
from toolstile_hookspecs.resources import Binding
from toolstile_hookspecs.section_tools import section_tools
from toolstile_hookspecs.sections import (
    OpenedSections,
    Section,
    Visibility,
    refuse_other_than_sections,
    several_faults,
    two_places,
)
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.tools import Tool


@dataclass(frozen=True)
class RenderedPrompt:
    """A prompt as the model gets it.

    Args:
        text: The Markdown.
        tools: The tools of the enabled sections, in order.
    """

    text: str
    tools: tuple[Tool[Any, Any], ...]


@dataclass(frozen=True)
class PromptTemplate:
    """A tree of sections, before anything is bound to it.

    Args:
        ns: The namespace, such as the application's name.
        key: What finds it within the namespace.
        sections: The sections, in order.
        policies: The rules over all its tools.

    Raises:
        DefinitionError: When the namespace or the key is not a text, there is something among the
            sections that is none, or the policies are not several.
    """

    ns: str
    key: str
    sections: Sequence[Section] = ()
    policies: Sequence[ToolPolicy] = ()

    def __post_init__(self) -> None:
        """Check the names, the sections and the policies."""
        for name, value in (("ns", self.ns), ("key", self.key)):
            # Callers need not be type-checked.
            if not isinstance(cast("object", value), str):
                kind = type(value).__name__
                msg = f"Prompt: {name} is of type {kind}; write Prompt.of(ns, key, [...])."
                raise DefinitionError(msg)
        where = f"Prompt {self.ns}:{self.key}"
        refuse_other_than_sections(where, self.sections)
        for fault in several_faults({"policies": self.policies}):
            raise DefinitionError(f"{where}: {fault}.")


@dataclass(frozen=True)
class Prompt:
    r"""A tree of sections, bound to params, resources and further sections.

    Args:
        template: The tree it comes from.
        params: What fills the placeholders.
        resources: What its tools are given, over what its sections bring.
        further: Sections after those of the template.

    Example:
        >>> section = MarkdownSection(key="a", title="A", template="Hi $name.")
        >>> prompt = Prompt(PromptTemplate("demo", "main", [section])).bind({"name": "Ada"})
        >>> prompt.render().text
        '# A\n\nHi Ada.'
    """

    template: PromptTemplate
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    resources: tuple[Binding[Any], ...] = ()
    further: tuple[Section, ...] = ()

    @classmethod
    def of(
        cls,
        ns: str,
        key: str,
        sections: Sequence[Section] = (),
        policies: Sequence[ToolPolicy] = (),
    ) -> Prompt:
        """Return the prompt of a template that needs nothing bound to it."""
        return cls(PromptTemplate(ns, key, sections, policies))

    @property
    def ns(self) -> str:
        """The namespace."""
        return self.template.ns

    @property
    def key(self) -> str:
        """The key, unique within the namespace."""
        return self.template.key

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections, in order."""
        return (*self.template.sections, *self.further)

    @property
    def policies(self) -> tuple[ToolPolicy, ...]:
        """The rules over all its tools."""
        return tuple(self.template.policies)

    def bind(
        self,
        *params: Any,
        resources: Mapping[type[Any], Any] | Iterable[Binding[Any]] = (),
        sections: Sequence[Section] = (),
    ) -> Prompt:
        """Return the prompt with more bound to it.

        Args:
            *params: Mappings, dataclasses or models whose fields fill the placeholders.
            resources: From type to instance or `Binding`, or bindings.
            sections: Sections after those there are.

        Raises:
            DefinitionError: When there is something among them that is not a section or has no
                fields, or the resources are not several.
        """
        where = f"Prompt {self.ns}:{self.key}"
        refuse_other_than_sections(where, sections)
        values = {
            name: value for each in params for name, value in _as_mapping(each, where).items()
        }
        return replace(
            self,
            params={**self.params, **values},
            resources=(*self.resources, *as_bindings(resources)),
            further=(*self.further, *sections),
        )

    def render(self, session: SessionProtocol | None = None) -> RenderedPrompt:
        """Return the text and the tools of the enabled sections.

        Sections shown as summaries come with the tools that read and open them.

        Raises:
            PromptValidationError: For a tool or key twice, a placeholder without value, or a
                section whose `enabled` raises.
        """
        lines: list[str] = []
        for each in self.places(session):
            lines.append(f"{'#' * min(each.depth, 6)} {each.section.title}")
            body = each.section.render_body(self.params) if each.open else _summary(each)
            if body.strip():
                lines.append(body.strip())
        return RenderedPrompt("\n\n".join(lines), tuple(self.tools(session)))

    def tools(self, session: SessionProtocol | None = None) -> list[Tool[Any, Any]]:
        """Return the tools that can be called now, in order.

        Raises:
            PromptValidationError: For a name twice; names both sections.
        """
        owner: dict[str, Section] = {}
        found: list[Tool[Any, Any]] = []
        for section, tool in self.offers(session):
            if tool.name in owner:
                where = two_places(owner[tool.name].key, section.key)
                msg = f"Tool {tool.name!r} stands {where}; remove or rename one."
                raise PromptValidationError(msg)
            owner[tool.name] = section
            found.append(tool)
        return found

    def offers(
        self, session: SessionProtocol | None = None
    ) -> Iterator[tuple[Section, Tool[Any, Any]]]:
        """Yield the tools that can be called now, each with its section."""
        summarised: Section | None = None
        for each in self.places(session):
            if each.open:
                for tool in each.section.tools:
                    yield each.section, tool
            else:
                summarised = summarised or each.section
        if summarised is not None:
            for tool in section_tools():
                yield summarised, tool

    def walk(self, session: SessionProtocol | None = None) -> Iterator[tuple[Section, int]]:
        """Yield the enabled sections with their depth, from 1, parents first."""
        for each in self.places(session):
            yield each.section, each.depth

    def places(self, session: SessionProtocol | None = None) -> Iterator[SectionPlace]:
        """Yield the enabled sections with where they stand, parents first.

        What is within a section shown as a summary is not part of the prompt.
        """
        yield from _places(self.sections, session, 1, "", OpenedSections.of(session))

    def everywhere(self) -> Iterator[Section]:
        """Yield all sections, whether they are part of the prompt now or not."""
        waiting = list(reversed(self.sections))
        while waiting:
            section = waiting.pop()
            yield section
            waiting += reversed(section.children)


@dataclass(frozen=True, slots=True)
class SectionPlace:
    """Where a section stands in a prompt.

    Args:
        section: The section.
        depth: 1 for the outermost.
        path: The keys from the outermost section on, joined with dots.
        open: Whether all of it is shown, and its tools can be called.
    """

    section: Section
    depth: int
    path: str
    open: bool


def as_bindings(
    given: Mapping[type[Any], Any] | Iterable[Binding[Any]],
) -> Iterator[Binding[Any]]:
    """Yield the bindings that a mapping from type to instance or binding stands for.

    Raises:
        DefinitionError: When it is neither a mapping nor several bindings.
    """
    if not isinstance(given, Mapping):
        several = not isinstance(cast("object", given), str) and hasattr(given, "__iter__")
        for each in given if several else (given,):
            if not isinstance(each, Binding):
                msg = f"Resources are given as {{Type: instance}} or as bindings, not as {each!r}."
                raise DefinitionError(msg)
            yield each
        return
    for kind, value in cast("Mapping[type[Any], Any]", given).items():
        is_binding = isinstance(value, Binding)
        yield cast("Binding[Any]", value) if is_binding else Binding[Any].instance(kind, value)


def _summary(place: SectionPlace) -> str:
    summary = getattr(place.section, "summary", None) or ""
    return (
        f"{summary}\n\n(This is a summary. Call open_sections with {place.path!r} for all of it.)"
    )


def _as_mapping(params: Any, where: str) -> dict[str, Any]:
    if isinstance(params, BaseModel):
        return dict(params)
    if dataclasses.is_dataclass(params) and not isinstance(params, type):
        return {each.name: getattr(params, each.name) for each in dataclasses.fields(params)}
    if params is None or isinstance(params, Mapping):
        return dict(cast("Mapping[str, Any]", params or {}))
    raise DefinitionError(
        f"{where}: {params!r} has no fields that could fill placeholders; give a mapping, "
        "a dataclass or a model."
    )


def _places(
    sections: Sequence[Section],
    session: SessionProtocol | None,
    depth: int,
    place: str,
    opened: frozenset[str],
) -> Iterator[SectionPlace]:
    seen: set[str] = set()
    for section in sections:
        path = f"{place}{section.key}"
        if section.key in seen:
            msg = f"Section key {path!r} stands twice; give one another key."
            raise PromptValidationError(msg)
        seen.add(section.key)
        if not _is_enabled(section, session, path):
            continue
        visibility = getattr(section, "visibility", Visibility.FULL)
        is_open = visibility is not Visibility.SUMMARY or path in opened
        yield SectionPlace(section, depth, path, is_open)
        if is_open:
            yield from _places(section.children, session, depth + 1, f"{path}.", opened)


def _is_enabled(section: Section, session: SessionProtocol | None, path: str) -> bool:
    try:
        return section.is_enabled(session)
    except Exception as error:
        reason = str(error).rstrip(".")
        msg = (
            f"Section {path!r} cannot tell whether it is part of the prompt: its `enabled` raised "
            f"{type(error).__name__} ({reason}). Fix it; without a session it is given None."
        )
        raise PromptValidationError(msg) from error

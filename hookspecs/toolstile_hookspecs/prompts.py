"""Prompts: trees of sections, bound to params and rendered for a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic import BaseModel

from toolstile_hookspecs._tools.field_checks import sections_faults, several_faults, type_faults
from toolstile_hookspecs.errors import DefinitionError, PromptValidationError
from toolstile_hookspecs.execution.prompt_parts import PromptResources, section_text, two_places
from toolstile_hookspecs.execution.prompt_tools import section_tools
from toolstile_hookspecs.policies import ToolPolicy
from toolstile_hookspecs.resources import Binding, ResourceResolver, as_bindings
from toolstile_hookspecs.sections import OpenedSections, Section, Visibility
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
        key: The key, unique within the namespace.
        sections: The sections, in order.
        policies: The rules over all its tools.
        output: The type of a model's answer, None for any text.
        feedback_providers: The `FeedbackProviderConfig`s of an agent.
        task_completion: The `TaskCompletionChecker` of an agent, None to let its model stop.

    Raises:
        DefinitionError: When a field holds something of another type.
    """

    ns: str
    key: str
    sections: Sequence[Section] = ()
    policies: Sequence[ToolPolicy] = ()
    output: Any = None
    feedback_providers: Sequence[Any] = ()
    task_completion: Any = None

    def __post_init__(self) -> None:
        if faults := type_faults(self, PromptTemplate, ("ns", "key")):
            raise DefinitionError(f"Prompt: {'; '.join(faults)}; write Prompt.of(ns, key, [...]).")
        several = several_faults(self, ("policies", "feedback_providers"))
        if faults := [*sections_faults(self.sections), *several]:
            raise DefinitionError(f"Prompt {self.ns}:{self.key}: {'; '.join(faults)}.")


@dataclass(frozen=True)
class Prompt:
    r"""A tree of sections, bound to params, resources and further sections.

    Args:
        template: The tree of sections.
        params: The values of the placeholders.
        resources: The resources for its tools, with precedence over its sections' resources.
        further: Sections after the template's.

    Example:
        >>> section = MarkdownSection(key="a", title="A", template="Hi $name.")
        >>> prompt = Prompt(PromptTemplate("demo", "main", [section])).bind({"name": "Ada"})
        >>> prompt.render().text
        '# A\n\nHi Ada.'
    """

    template: PromptTemplate
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    resources: PromptResources = field(default_factory=PromptResources)
    further: tuple[Section, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.resources, PromptResources):  # pyright: ignore[reportUnnecessaryIsInstance]
            object.__setattr__(self, "resources", PromptResources(self.resources))

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
            DefinitionError: When something among them has another type.
        """
        where = f"Prompt {self.ns}:{self.key}"
        if faults := sections_faults(sections):
            raise DefinitionError(f"{where}: {'; '.join(faults)}.")
        bound, more = dict(self.params), as_bindings(resources)
        for values in params:
            bound.update(_as_mapping(values, where))
        return replace(
            self,
            params=bound,
            resources=PromptResources((*self.resources, *more)) if more else self.resources,
            further=(*self.further, *sections),
        )

    def render(
        self, session: SessionProtocol | None = None, resources: ResourceResolver | None = None
    ) -> RenderedPrompt:
        """Return the text and the tools of the enabled sections.

        Sections shown as summaries come with the tools that read and open them. Session and
        resources are for sections whose text depends on them; see `SupportsSessionText`.

        Raises:
            PromptValidationError: For a tool or key twice, a placeholder without value, or a
                section whose `enabled` raises.
        """
        parts: list[str] = []
        given = self.params, session, resources
        for place in self.places(session):
            body = section_text(place.section, place.path, *given, whole=place.open)
            parts += [f"{'#' * min(place.depth, 6)} {place.section.title}", body.strip()]
        return RenderedPrompt("\n\n".join(filter(None, parts)), tuple(self.tools(session)))

    def tools(self, session: SessionProtocol | None = None) -> list[Tool[Any, Any]]:
        """Return the tools that can be called now, in order.

        Raises:
            PromptValidationError: For a name twice; names both sections.
        """
        found: dict[str, tuple[Section, Tool[Any, Any]]] = {}
        for section, tool in self.offers(session):
            if tool.name in found:
                where = two_places(found[tool.name][0].key, section.key)
                msg = f"Tool {tool.name!r} stands {where}; remove or rename one."
                raise PromptValidationError(msg)
            found[tool.name] = section, tool
        return [tool for _, tool in found.values()]

    def offers(
        self, session: SessionProtocol | None = None
    ) -> Iterator[tuple[Section, Tool[Any, Any]]]:
        """Yield the tools that can be called now, each with its section."""
        closed: list[Section] = []
        for place in self.places(session):
            if place.open:
                yield from ((place.section, tool) for tool in place.section.tools)
            else:
                closed.append(place.section)
        if closed:
            yield from ((closed[0], tool) for tool in section_tools())

    def places(self, session: SessionProtocol | None = None) -> Iterator[SectionPlace]:
        """Yield the enabled sections with their places, parents first.

        Sections within a section shown as a summary are not part of the prompt.
        """
        yield from _places(self.sections, session, 1, "", OpenedSections.of(session))

    def everywhere(self) -> Iterator[Section]:
        """Yield all sections, enabled or not."""
        waiting = list(reversed(self.sections))
        while waiting:
            yield (section := waiting.pop())
            waiting += reversed(section.children)


@dataclass(frozen=True, slots=True)
class SectionPlace:
    """The place of a section in a prompt.

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


def _as_mapping(params: Any, where: str) -> dict[str, Any]:
    if dataclasses.is_dataclass(params) and not isinstance(params, type):
        return {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    if params is None or isinstance(params, (Mapping, BaseModel)):
        return dict(cast("Mapping[str, Any]", params or {}))
    told = "has no fields that could fill placeholders; give a mapping, a dataclass or a model."
    raise DefinitionError(f"{where}: {params!r} {told}")


def _places(
    sections: Sequence[Section],
    session: SessionProtocol | None,
    depth: int,
    above: str,
    opened: frozenset[str],
) -> Iterator[SectionPlace]:
    seen: set[str] = set()
    for section in sections:
        path = f"{above}{section.key}"
        if section.key in seen:
            raise PromptValidationError(f"Section key {path!r} stands twice; give one another key.")
        seen.add(section.key)
        try:
            if not section.is_enabled(session):
                continue
        except Exception as error:
            raised = f"{type(error).__name__} ({str(error).rstrip('.')})"
            told = f"its `enabled` raised {raised}. Fix it; without a session it is given None."
            msg = f"Section {path!r} cannot tell whether it is part of the prompt: {told}"
            raise PromptValidationError(msg) from error
        is_open = path in opened or getattr(section, "visibility", None) is not Visibility.SUMMARY
        yield SectionPlace(section, depth, path, is_open)
        if is_open:
            yield from _places(section.children, session, depth + 1, f"{path}.", opened)

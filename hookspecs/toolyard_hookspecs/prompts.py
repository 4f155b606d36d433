"""Sections and prompts: guidance and tools together, and the rules that go with them."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, cast

from toolyard_hookspecs.errors import DefinitionError, PromptValidationError
from toolyard_hookspecs.policies import ToolPolicy
from toolyard_hookspecs.resources import Binding
from toolyard_hookspecs.sessions import SessionProtocol
from toolyard_hookspecs.tools import Tool

# Authors' mistakes are caught whatever the annotations promise, so the check is a dynamic one.
_TOOL: Final[Any] = Tool


class Section(Protocol):
    """A part of a prompt that bundles guidance with what it speaks of."""

    @property
    def key(self) -> str:
        """What finds it; unique among its siblings."""
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
        """What its tools are given."""
        ...

    @property
    def children(self) -> Sequence[Section]:
        """The sections within it."""
        ...

    def is_enabled(self, session: SessionProtocol | None) -> bool:
        """Tell whether it is part of the prompt now."""
        ...

    def setup(self, session: SessionProtocol) -> None:
        """Register the slices and reducers its tools need; called once per session."""
        ...

    def render_body(self, params: Mapping[str, Any]) -> str:
        """Return its text; raises `PromptValidationError` for a placeholder without a value."""
        ...


@dataclass(frozen=True, kw_only=True)
class MarkdownSection:
    """A section whose text is Markdown with `$name` placeholders.

    Args:
        key: What finds it; `[a-z0-9_-]`, unique among its siblings.
        title: Its heading.
        template: Its text; `$name` and `${name}` are filled from the prompt's params.
        tools: The tools it offers.
        policies: The rules over its tools.
        resources: What its tools are given.
        children: The sections within it.
        enabled: Decides from the session whether it is part of the prompt now.
        on_session: Registers slices and reducers on a session, once.

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

    def __post_init__(self) -> None:
        """Check what can be checked before anything is rendered."""
        if not self.key or not self.title.strip():
            msg = f"Section {self.key or self.title!r}: give it both a key and a title."
            raise DefinitionError(msg)
        strangers: list[object] = [each for each in self.tools if not isinstance(each, _TOOL)]
        if strangers:
            raise DefinitionError(
                f"Section {self.key!r}: {strangers[0]!r} is not a Tool; decorate it with @tool."
            )

    def is_enabled(self, session: SessionProtocol | None) -> bool:
        """Tell whether it is part of the prompt now."""
        return self.enabled is None or self.enabled(session)

    def setup(self, session: SessionProtocol) -> None:
        """Register the slices and reducers its tools need."""
        if self.on_session is not None:
            self.on_session(session)

    def render_body(self, params: Mapping[str, Any]) -> str:
        """Return its text with the placeholders filled."""
        try:
            return string.Template(self.template).substitute(params)
        except (KeyError, ValueError) as error:
            missing = f"the placeholder ${error.args[0]} has no value"
            what = missing if isinstance(error, KeyError) else str(error)
            msg = f"Section {self.key!r}: {what}; bind it, or write $$ for a dollar sign."
            raise PromptValidationError(msg) from None


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
class Prompt:
    r"""A tree of sections, bound to params.

    Args:
        ns: The namespace, such as the application's name.
        key: What finds it within the namespace.
        sections: The sections, in order.
        policies: The rules over all its tools.
        params: What fills the placeholders.

    Example:
        >>> prompt = Prompt("demo", "main", (MarkdownSection(key="a", title="A", template="Hi."),))
        >>> prompt.render().text
        '# A\n\nHi.'
    """

    ns: str
    key: str
    sections: tuple[Section, ...] = ()
    policies: tuple[ToolPolicy, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def bind(self, params: Any = None, *, sections: Sequence[Section] = ()) -> Prompt:
        """Return the prompt with params (a mapping or dataclass) and further sections."""
        values = _as_mapping(params)
        return replace(self, params={**self.params, **values}, sections=(*self.sections, *sections))

    def render(self, session: SessionProtocol | None = None) -> RenderedPrompt:
        """Return the text and the tools of the enabled sections.

        Raises:
            PromptValidationError: For a tool or key twice, or a placeholder without value.
        """
        lines: list[str] = []
        for section, depth in self.walk(session):
            lines.append(f"{'#' * min(depth, 6)} {section.title}")
            if body := section.render_body(self.params).strip():
                lines.append(body)
        return RenderedPrompt("\n\n".join(lines), tuple(self.tools(session)))

    def tools(self, session: SessionProtocol | None = None) -> list[Tool[Any, Any]]:
        """Return the tools of the enabled sections, in order."""
        owner: dict[str, Section] = {}
        found: list[Tool[Any, Any]] = []
        for section, _ in self.walk(session):
            for tool in section.tools:
                if tool.name in owner:
                    msg = (
                        f"Tool {tool.name!r} stands in section {owner[tool.name].key!r} and in "
                        f"{section.key!r}; remove or rename one."
                    )
                    raise PromptValidationError(msg)
                owner[tool.name] = section
                found.append(tool)
        return found

    def walk(self, session: SessionProtocol | None = None) -> Iterator[tuple[Section, int]]:
        """Yield the enabled sections with their depth, from 1, parents first."""
        yield from _walk(self.sections, session, 1, "")


def _as_mapping(params: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(params) and not isinstance(params, type):
        return {each.name: getattr(params, each.name) for each in dataclasses.fields(params)}
    return dict(cast("Mapping[str, Any]", params or {}))


def _walk(
    sections: Sequence[Section], session: SessionProtocol | None, depth: int, place: str
) -> Iterator[tuple[Section, int]]:
    seen: set[str] = set()
    for section in sections:
        if section.key in seen:
            msg = f"Section key {place}{section.key!r} stands twice; give one another key."
            raise PromptValidationError(msg)
        seen.add(section.key)
        if section.is_enabled(session):
            yield section, depth
            yield from _walk(section.children, session, depth + 1, f"{place}{section.key}.")

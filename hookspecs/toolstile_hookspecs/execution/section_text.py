"""The text of a section in a prompt, also where it depends on the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from toolstile_hookspecs.resources import ResourceResolver
from toolstile_hookspecs.sessions import SessionProtocol


@dataclass(frozen=True, slots=True)
class SectionText:
    """The text of a section as it is shown now.

    Args:
        body: All of it.
        summary: The text in its place while the section is shown as a summary.
    """

    body: str
    summary: str


class SupportsSessionText(Protocol):
    """An optional part of a `Section`, whose text then depends on the session and its resources.

    Each rendering of a prompt asks for it, so what is expensive is kept elsewhere.
    """

    def text_in(
        self, session: SessionProtocol | None, resources: ResourceResolver | None, body: str
    ) -> SectionText:
        """Return the text that a session shows.

        Args:
            session: The session, None where the prompt is rendered for none.
            resources: The resources of the executor or of the call, None where there are none.
            body: The text of `render_body`, which a file of prompt overrides may have replaced.
        """
        ...


class _Section(Protocol):
    def render_body(self, params: Mapping[str, Any]) -> str: ...


def section_text(  # noqa: PLR0913 - what `Prompt.render` knows
    section: _Section,
    path: str,
    params: Mapping[str, Any],
    session: SessionProtocol | None,
    resources: ResourceResolver | None,
    *,
    whole: bool,
) -> str:
    """Return the text that a model reads of a section: all of it, or its summary with a hint.

    Args:
        section: The section.
        path: The keys from the outermost section on, joined with dots.
        params: The values of the placeholders.
        session: The session, if any.
        resources: The resources of the executor or of the call, if any.
        whole: Whether to return all of it.
    """
    # By its name: a section in which the host replaced parts has the method of the original.
    text_in = getattr(section, "text_in", None)
    shown: SectionText | None = text_in and text_in(session, resources, section.render_body(params))
    if whole:
        return section.render_body(params) if shown is None else shown.body
    summary = getattr(section, "summary", None) if shown is None else shown.summary
    return (
        f"{summary or ''}\n\n(This is a summary. Call open_sections with {path!r} for all of it.)"
    )


def two_places(one: str, other: str) -> str:
    """Return the places of a tool that two sections have, or one has twice, by their keys."""
    return f"twice in section {one!r}" if one == other else f"in section {one!r} and in {other!r}"

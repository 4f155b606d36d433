"""The host's prompt as instructions, and its sections as MCP prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from toolstile_hookspecs import (
    ExecutorHandle,
    HostHandle,
    Prompt,
    PromptValidationError,
    Section,
    SessionProtocol,
)
from toolstile_plugins.mcp.server.request import refuse_cursor


def instructions_of(prompt: Prompt) -> str | None:
    """Return the text about the tools for a model, without sections that lack a value."""
    texts: list[str] = []
    for section in prompt.sections:
        with suppress(PromptValidationError):
            texts.append(_only(prompt, section).render().text)
    return "\n\n".join(filter(None, texts)) or None


class PromptList:
    """Describes and renders the prompt as a whole and each of its sections."""

    def __init__(self, host: HostHandle) -> None:
        self._host = host

    def page(self, session: SessionProtocol | None, cursor: str | None) -> dict[str, Any]:
        """Return the whole list, as that of the tools."""
        refuse_cursor(cursor)
        return {"prompts": [*self._shapes(session)]}

    def get(
        self, executor: ExecutorHandle, name: str, arguments: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return a prompt as messages.

        Raises:
            MCPError: When there is none of that name, or an argument is missing.
        """
        prompt = self.named(executor.session, name)
        missing = [argument for argument in _placeholders(prompt) if argument not in arguments]
        if missing:
            raise MCPError(INVALID_PARAMS, f"Prompt {name!r} needs: {', '.join(missing)}.")
        try:
            bound = prompt.bind(dict(arguments))
            text = bound.render(executor.session, executor.resources).text
        except PromptValidationError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def named(self, session: SessionProtocol | None, name: str) -> Prompt:
        """Return the prompt of a name.

        Raises:
            MCPError: When there is none.
        """
        prompt = self._host.prompt
        if name == _whole(prompt):
            return prompt
        for section in _enabled(prompt, session):
            if section.key == name:
                return _only(prompt, section)
        raise MCPError(INVALID_PARAMS, f"There is no prompt {name!r}. List those there are.")

    def _shapes(self, session: SessionProtocol | None) -> Iterator[dict[str, Any]]:
        prompt = self._host.prompt
        sections = [*_enabled(prompt, session)]
        if sections:
            yield _shape(_whole(prompt), "All sections", "Everything about all tools.", prompt)
        for section in sections:
            told = f"How to use the tools of {section.title}." if section.tools else section.title
            yield _shape(section.key, section.title, told, _only(prompt, section))


def _shape(name: str, title: str, description: str, prompt: Prompt) -> dict[str, Any]:
    shape: dict[str, Any] = {"name": name, "title": title, "description": description}
    arguments = [{"name": placeholder, "required": True} for placeholder in _placeholders(prompt)]
    return {**shape, "arguments": arguments} if arguments else shape


def _whole(prompt: Prompt) -> str:
    # No section's key has a colon.
    return f"{prompt.ns}:{prompt.key}"


def _only(prompt: Prompt, section: Section) -> Prompt:
    return replace(prompt, template=replace(prompt.template, sections=(section,)), further=())


def _enabled(prompt: Prompt, session: SessionProtocol | None) -> Iterator[Section]:
    for place in prompt.places(session):
        if place.depth == 1:
            yield place.section


def _placeholders(prompt: Prompt) -> list[str]:
    found: dict[str, None] = {}
    for section in prompt.everywhere():
        for name in getattr(section, "placeholders", ()):
            if name not in prompt.params:
                found[name] = None
    return [*found]

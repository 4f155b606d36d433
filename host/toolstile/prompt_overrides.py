"""Texts of prompts that a file puts in place of those in the code.

Every override carries the hash of the text it was written for. When the code's text has
changed since, the override is stale: it is reported, and the code's text holds.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from toolstile.plugins.offered_tools import changed_prompt
from toolstile.plugins.plugin_errors import one_line
from toolstile.plugins.reports import place_of
from toolstile.settings.sources import read_toml
from toolstile.settings.table_validation import validate_table
from toolstile_hookspecs import (
    Catalog,
    ConfigurationError,
    DefinitionError,
    PluginError,
    Prompt,
    Section,
    SessionProtocol,
    Tool,
)
from toolstile_hookspecs.sections import fill

log = logging.getLogger("toolstile.prompt_overrides")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SectionOverride(_Strict):
    """Another text for a section, and the hash of the one it was written for."""

    text: str
    hash: str


class ToolOverride(_Strict):
    """Another description for a tool, and the hash of the one it was written for."""

    description: str
    hash: str


class PromptOverride(_Strict):
    """The overrides of one prompt, sections by path and tools by name."""

    sections: dict[str, SectionOverride] = {}
    tools: dict[str, ToolOverride] = {}


class Overrides(_Strict):
    """The overrides of a file, by `namespace/key` of the prompt."""

    prompts: dict[str, PromptOverride] = {}


def hash_of(text: str) -> str:
    """Return the hash with which an override names its original text: SHA-256 in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def load_overrides(path: Path) -> Overrides:
    """Read a file of overrides."""
    return validate_table(Overrides, read_toml(path), plugin=None, source=str(path))


def override(prompt: Prompt, overrides: Overrides) -> Prompt:
    """Return the prompt with the texts that are overridden; stale ones are logged."""
    given = overrides.prompts.get(f"{prompt.ns}/{prompt.key}")
    if given is None:
        return prompt
    used: set[str] = set()

    def parts_of(section: Section, path: str) -> dict[str, Any]:
        text = _section_text(section, path, given, used)
        if text is None:
            return {}

        def render_body(params: Mapping[str, Any]) -> str:
            return fill(text, params, section.key)

        return {"render_body": render_body}

    made = changed_prompt(prompt, lambda tool: _override_tool(tool, given, used), parts_of)
    for name in {*given.sections, *given.tools} - used:
        log.warning("Prompt %s/%s has no %r to override.", prompt.ns, prompt.key, name)
    return made


def _section_text(section: Section, path: str, given: PromptOverride, used: set[str]) -> str | None:
    found = given.sections.get(path)
    if found is None:
        return None
    used.add(path)
    accepts = getattr(section, "accepts_overrides", False)
    return found.text if _holds("section", path, found.hash, accepts, text_of(section)) else None


def _override_tool(tool: Tool[Any, Any], given: PromptOverride, used: set[str]) -> Tool[Any, Any]:
    found = given.tools.get(tool.name)
    if found is None:
        return tool
    used.add(tool.name)
    if not _holds("tool", tool.name, found.hash, tool.accepts_overrides, tool.description):
        return tool
    try:
        return dataclasses.replace(tool, description=found.description, long_description=None)
    except DefinitionError as error:
        raise ConfigurationError(f"The override of tool {tool.name!r} is wrong: {error}") from None


def _holds(what: str, name: str, hash_: str, accepts: bool, text: str | None) -> bool:  # noqa: FBT001 - of one use
    """Return whether an override applies; else log the reason."""
    if not accepts or text is None:
        log.warning("The %s %r accepts no overrides; its own text holds.", what, name)
        return False
    if hash_ != hash_of(text):
        log.warning(
            "The override of %s %r is stale: the text it was written for has changed. The code's "
            "text holds; look at both, then set hash = %r.",
            what,
            name,
            hash_of(text),
        )
        return False
    return True


def text_of(section: Section) -> str | None:
    """Return the text of a section that can be overridden, or None."""
    template: object = getattr(section, "template", None)
    return template if isinstance(template, str) else None


def set_up(section: Section, session: SessionProtocol, catalog: Catalog) -> None:
    """Let a section prepare a session; `PluginError` if the section raises."""
    try:
        section.setup(session)
    except Exception as error:
        raise section_failed(section, "on_session", error, catalog) from error


def section_failed(
    section: Section, function: str, error: Exception, catalog: Catalog
) -> PluginError:
    """Return the error for an exception of a section's `on_session` or `enabled`."""
    place = place_of(error)
    where = "" if place is None else f" ({place})"
    plugin = next(filter(None, (catalog.plugin_of(tool.name) for tool in section.tools)), None)
    whose = "" if plugin is None else f" of plugin {plugin}"
    block = "" if plugin is None else f", or block the plugin with TOOLSTILE_BLOCK={plugin}"
    return PluginError(
        f"Section {section.key!r}{whose} keeps every call from running: its {function} raised "
        f"{one_line(error).rstrip('.')}{where}. Fix it{block}."
    )

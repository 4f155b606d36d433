"""The tools of a prompt that are offered: those of the wanted tags whose dependencies are there."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

from toolstile.plugins.changed_section import changed_prompt
from toolstile.plugins.tool_dependencies import dependency, names_of_dependencies
from toolstile.settings.model import Settings, ToolCorrection
from toolstile_hookspecs import (
    NOTICE,
    ConfigurationError,
    DefinitionError,
    Prompt,
    Tool,
    ToolSelector,
)
from toolstile_hookspecs.execution.prompt_tools import SupportsPrompt
from toolstile_hookspecs.selectors import CONSEQUENCES, fits
from toolstile_hookspecs.support.text import suggest

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OfferedPrompt(Prompt):
    """A prompt without the tools that are left out, and why each of them is, by its names."""

    left_out: Mapping[str, str] = field(default_factory=dict[str, str])


def circle_among(tools: Iterable[Tool[Any, Any]]) -> str | None:
    """Return the circle in which tools depend on one another, `a -> b -> a`, if there is one."""
    try:
        TopologicalSorter({tool.name: names_of_dependencies(tool) for tool in tools}).prepare()
    except CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return None


def fitted(prompt: Prompt) -> Prompt:
    """Return a prompt whose tools know which others it offers; see `SupportsPrompt`."""
    tools = [tool for section in prompt.everywhere() for tool in section.tools]
    # Looking at the class of each against the protocol would take longer than all else here.
    able = [cast("SupportsPrompt", tool) for tool in tools if hasattr(tool, "within")]
    twins: dict[object, Tool[Any, Any]] = {tool: tool.within(tools) for tool in able}
    return changed_prompt(prompt, lambda tool: twins.get(tool, tool)) if twins else prompt


class ToolOffers:
    """Leaves tools out of prompts, and warns of each reason once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def configured(self, prompt: Prompt, configuration: Settings) -> Prompt:
        """Return the prompt with the tools that are configured, as they are corrected there.

        Raises:
            ConfigurationError: When a tool cannot be what its table says.
            DefinitionError: See `of`.
        """
        if configuration.tools:
            prompt = self._corrected(prompt, configuration.tools)
        return self.of(prompt, configuration.tags, configuration.without_tags)

    def _corrected(self, prompt: Prompt, tables: Mapping[str, ToolCorrection]) -> Prompt:
        tools = [tool for section in prompt.everywhere() for tool in section.tools]
        names = {name for tool in tools for name in tool.policy_names}
        for name in sorted(tables):
            if not any(fits(tool, name) for tool in tools):
                self._warn(f"[tools.{name}] corrects no tool{suggest(name, names) or '.'}")
        twins = {tool: _corrected(tool, tables) for tool in tools}
        return changed_prompt(prompt, twins.__getitem__) if twins else prompt

    def of(self, prompt: Prompt, only: Collection[str], without: Collection[str]) -> Prompt:
        """Return the prompt with the tools that are offered.

        Args:
            prompt: The prompt.
            only: The tags of which a tool needs one; none for all tools.
            without: The tags of which a tool may have none.

        Raises:
            DefinitionError: When tools depend on one another in a circle.
        """
        tools = [tool for section in prompt.everywhere() for tool in section.tools]
        if not (only or without or any(tool.depends_on for tool in tools)):
            return prompt
        if (circle := circle_among(tools)) is not None:
            raise DefinitionError(f"These tools depend on one another in a circle: {circle}.")
        named = {*only, *without}
        for fault in ToolSelector(tags=named).faults(tools) if named else ():
            self._warn(f"The choice of tools {fault}.")
        chosen = ToolSelector(tags={*only} or None)
        unwanted = ToolSelector(tags={*without}) if without else None
        left_out = {
            tool: "it is not among the tools that are offered"
            for tool in tools
            if not chosen.selects(tool) or (unwanted is not None and unwanted.selects(tool))
        }
        self._leave_out_dependents(tools, left_out)
        if not left_out:
            return prompt
        told = {
            name: f"{name} cannot be called here: {why}. Continue without it."
            for tool, why in left_out.items()
            for name in tool.policy_names
        }
        told = {**getattr(prompt, "left_out", {}), **told}
        rest = changed_prompt(prompt, lambda tool: None if tool in left_out else tool)
        return OfferedPrompt(rest.template, rest.params, rest.resources, (), told)

    def _leave_out_dependents(
        self, tools: list[Tool[Any, Any]], left_out: dict[Tool[Any, Any], str]
    ) -> None:
        """Leave out the tools that depend on what is not there, and those that depend on them."""
        found = True
        while found:
            left = [tool for tool in tools if tool not in left_out]
            there = {name: tool for tool in left for name in tool.policy_names}
            found = False
            for tool in tools:
                missing = [text for text in tool.depends_on if not dependency(text).is_met(there)]
                if missing and tool not in left_out:
                    found = True
                    verb = "is" if len(missing) == 1 else "are"
                    why = f"it depends on {', '.join(missing)}, which {verb} not offered"
                    left_out[tool] = why
                    other = there.get(dependency(missing[0]).name)
                    hint = suggest(missing[0], there) or "."
                    if other is not None:
                        hint = f"; {other.name} has {other.version or 'no version'}."
                    self._warn(f"Tool {tool.name!r} is left out: {why}{hint}")

    def _warn(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            log.warning("%s", text, extra=NOTICE)


def _corrected(tool: Tool[Any, Any], tables: Mapping[str, ToolCorrection]) -> Tool[Any, Any]:
    # What stands under its own name comes last, and wins.
    fitting = sorted((name for name in tables if fits(tool, name)), key=tool.policy_names.count)
    given = {
        key: getattr(tables[name], key) for name in fitting for key in tables[name].model_fields_set
    }
    if not given:
        return tool
    if given.get("category", tool.category) != tool.category:
        given.setdefault("consequence", CONSEQUENCES[given["category"]])
    try:
        return replace(tool, **given)
    except DefinitionError as error:
        raise ConfigurationError(f"[tools.{tool.name}] does not fit: {error}") from None

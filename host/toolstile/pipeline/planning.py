"""The tools that an executor's calls can reach, and how: made anew when any of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolstile.pipeline.missing import behind_summaries
from toolstile.pipeline.plan import Manner, Plan, as_strict_as, plan_for, table_of
from toolstile.plugins.wire_names import serving_wire_names
from toolstile.policies.prompt_rules import PromptRules
from toolstile.section_failures import section_failed
from toolstile_hookspecs import OpenedSections, Prompt, Section, Tool, Visibility

if TYPE_CHECKING:
    from toolstile.host import Host
    from toolstile.state.session import Session

MAX_OTHERS: Final = 256
"""How many plans are kept of tools that lookup hooks gave."""


class Planning:
    """The plans of a prompt's tools, as the prompt, the plugins and the session are now.

    Args:
        host: Whose policies and plugins have a say.
        prompt: The prompt.
        session: Decides which sections are part of it.
        manner: How all calls pass.

    Attributes:
        table: What calls are dispatched by.
        changing: The sections that can become, or cease to be, part of the prompt.
        shown_then: What `shown` was.
    """

    __slots__ = (
        "_host",
        "_manner",
        "_others",
        "_prompt",
        "_session",
        "changing",
        "shown_then",
        "table",
    )

    def __init__(self, host: Host, prompt: Prompt, session: Session, manner: Manner) -> None:
        self._host = host
        self._prompt = prompt
        self._session = session
        self._manner = manner
        self._others: dict[int, Plan] = {}
        self.changing = [each for each in prompt.everywhere() if _can_change(each)]
        self.shown_then = self.shown()
        rules = self._rules()
        everywhere = rules.everywhere()
        plans: dict[str, Plan] = {}
        prompt.tools(session)
        for section, tool in prompt.offers(session):
            plans[tool.name] = plan_for(tool, rules.of(section), everywhere, manner, host.plugins)
        behind = behind_summaries(prompt, session)
        rules.tell_of_strays()
        aliases = serving_wire_names(plan.tool for plan in plans.values())
        known = {wire: plans[tool.name] for wire, tool in aliases.items()}
        self.table = table_of(host.plugins, {**plans, **known, **plans}, behind)

    def shown(self) -> tuple[object, ...]:
        """Return what decides which sections are part of the prompt now."""
        return (OpenedSections.of(self._session), *map(self._is_enabled, self.changing))

    def _is_enabled(self, section: Section) -> bool:
        try:
            return section.is_enabled(self._session)
        except Exception as error:
            raise section_failed(section, "enabled", error, self._host.catalog) from error

    def plan_of(self, tool: Tool[Any, Any]) -> Plan:
        """Return the plan of a tool that a lookup hook gave, which may be nobody's."""
        known = self.table.plans.get(tool.name)
        if known is not None and known.tool is tool:
            return known
        plan = self._others.get(id(tool))
        if plan is None or plan.tool is not tool:
            rules = self._rules()
            plugins = self._host.plugins
            plan = plan_for(tool, rules.shared, rules.everywhere(), self._manner, plugins)
            plan = as_strict_as(plan, self._kin_of(tool))
            while len(self._others) >= MAX_OTHERS:
                # A plugin may make a tool for each call; the oldest are met least.
                del self._others[next(iter(self._others))]
            self._others[id(tool)] = plan
        return plan

    def _rules(self) -> PromptRules:
        return PromptRules(self._host, self._prompt, dry_run=self._manner.dry_run)

    def _kin_of(self, tool: Tool[Any, Any]) -> list[Plan]:
        """Return the plans of known tools that a plugin's tool may pass itself off as."""
        return [
            plan
            for plan in self.table.plans.values()
            if plan.tool.name == tool.name
            or (tool.handler is not None and plan.tool.handler is tool.handler)
        ]


def _can_change(section: Section) -> bool:
    summarised = getattr(section, "visibility", None) is Visibility.SUMMARY
    return summarised or getattr(section, "enabled", True) is not None

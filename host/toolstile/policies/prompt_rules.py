"""Which rules hold where: those of a section, of its prompt, of the host and of plugins' hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolstile.policies.renamed import knowing
from toolstile.policies.rules import (
    CONTAINED_ONLY,
    Rule,
    named,
    refuse_duplicates,
    rule_of,
    rules_of_plugins,
)
from toolstile.policies.strays import governed_by, names_known_to, names_within
from toolstile_hookspecs import Prompt, Section, Tool, ToolPolicy

if TYPE_CHECKING:
    from toolstile.host import Host


class PromptRules:
    """The rules under which the tools of a prompt are called, as everything is now.

    Args:
        host: Whose policies and plugins have a say.
        prompt: The prompt.
        dry_run: Whether only contained tools may run.

    Attributes:
        shared: The rules of all tools: those of the prompt, the host and plugins' hooks.
    """

    def __init__(self, host: Host, prompt: Prompt, *, dry_run: bool) -> None:
        self._host = host
        self._prompt = prompt
        self._places = _places(prompt.sections)
        self._shared = [*named(prompt.policies, place="prompt"), *host.policies]
        rules = [*map(rule_of, self._shared), *self._hook_rules()]
        self.shared = [*rules, CONTAINED_ONLY] if dry_run else rules

    def of(self, section: Section) -> list[Rule]:
        """Return the rules of a section's tools."""
        return [*self._own(section), *self.shared]

    def everywhere(self) -> list[Rule]:
        """Return all rules there are.

        Raises:
            DefinitionError: When two policies have one name.
        """
        policies: list[ToolPolicy] = []
        rules: list[Rule] = []
        for section in self._prompt.everywhere():
            policies += self._policies_of(section)
            rules += self._own(section)
        refuse_duplicates([*policies, *self._shared])
        unique = {rule.name: rule for rule in [*rules, *map(rule_of, self._shared)]}
        return [*unique.values(), *self._hook_rules()]

    def tell_of_strays(self) -> None:
        """Tell of policies that rule by a name which no tool has, such as one misspelt."""
        sections = self._prompt.everywhere()
        ruling = [each for each in sections if any(map(governed_by, each.policies))]
        if not ruling and not any(map(governed_by, self._shared)):
            return
        names = names_within(self._prompt, self._host.catalog)
        self._host.stray_names.tell(self._shared, names)
        for section in ruling:
            known = names_known_to(section, names)
            self._host.stray_names.tell(self._policies_of(section), known)

    def _own(self, section: Section) -> list[Rule]:
        rules = [rule_of(policy) for policy in self._policies_of(section)]
        # Of the tools of a plugin that the configuration has renamed.
        originals: Mapping[str, Tool[Any, Any]] | None = getattr(section, "originals", None)
        return rules if originals is None else [knowing(rule, originals) for rule in rules]

    def _policies_of(self, section: Section) -> list[ToolPolicy]:
        return named(section.policies, place=self._places.get(id(section), section.key))

    def _hook_rules(self) -> list[Rule]:
        hooks = self._host.plugins.implementations
        return rules_of_plugins(hooks("toolstile_check"), hooks("toolstile_on_result"))


def _places(sections: Sequence[Section], above: str = "") -> dict[int, str]:
    """Return by identity where each section stands: a key is unique among siblings only."""
    places: dict[int, str] = {}
    for section in sections:
        path = places[id(section)] = f"{above}{section.key}"
        places.update(_places(section.children, f"{path}."))
    return places

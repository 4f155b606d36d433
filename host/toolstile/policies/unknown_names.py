"""Warnings about names in policies that no tool has: a typo would disable the policy silently."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from toolstile_hookspecs import Catalog, PersistentPolicy, Prompt, Section, Tool, ToolPolicy
from toolstile_hookspecs.section_tools import section_tools
from toolstile_hookspecs.support.text import near

log = logging.getLogger("toolstile.policies.names")

SUGGESTED: Final = 2


class UnknownNameWarnings:
    """Warns of the names in policies that nobody offers, of each once."""

    def __init__(self) -> None:
        self._told: set[tuple[str, tuple[str, ...]]] = set()

    def tell(self, policies: Iterable[ToolPolicy], known: Collection[str]) -> None:
        """Log one warning for each policy that rules by names which are not known."""
        for policy in policies:
            names = tuple(sorted({*governed_by(policy)}.difference(known)))
            if names and (policy.name, names) not in self._told:
                self._told.add((policy.name, names))
                shown = ", ".join(f"{name!r}{_hint(name, known)}" for name in names)
                log.warning(
                    "Policy %r refers to unknown tools: %s. It governs nothing by that. Fix the "
                    "names, or load the plugin that offers them.",
                    policy.name,
                    shown,
                )


def governed_by(policy: ToolPolicy) -> Collection[str]:
    """Return the names of tools that a policy says it rules by."""
    if isinstance(policy, PersistentPolicy):
        policy = policy.policy
    names: Collection[str] = getattr(policy, "governed", ())
    return names


def names_within(prompt: Prompt, catalog: Catalog) -> frozenset[str]:
    """Return every name that a tool has, in a section that is open or not, here or elsewhere."""
    tools = [*section_tools()]
    for section in prompt.everywhere():
        tools += section.tools
    return frozenset([*_names_of(tools), *catalog.names()])


def names_known_to(section: Section, names: frozenset[str]) -> frozenset[str]:
    """Return the names by which a section's own policies know tools.

    Those of a plugin that the configuration has renamed know them as their author named them.
    """
    originals: Mapping[str, Tool[Any, Any]] | None = getattr(section, "originals", None)
    if originals is None:
        return names
    return (names - originals.keys()).union(_names_of(originals.values()))


def _names_of(tools: Iterable[Tool[Any, Any]]) -> Iterator[str]:
    for tool in tools:
        yield from tool.policy_names


def _hint(name: str, known: Collection[str]) -> str:
    found = near(name, sorted(known), SUGGESTED)
    return f" (did you mean {' or '.join(map(repr, found))}?)" if found else ""

"""Names in policies that no tool has: a slip would switch the policy off."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import Any, Final

from toolstile.plugins.registry import Plugins
from toolstile.policies.rules import selector_of
from toolstile.settings import Settings
from toolstile_hookspecs import (
    Catalog,
    PersistentPolicy,
    Prompt,
    Section,
    Tool,
    ToolPolicy,
    ToolSelector,
)
from toolstile_hookspecs.execution.prompt_tools import section_tools

log = logging.getLogger("toolstile.policies.names")

_WILD: Final = re.compile(r"[*?\[]")

Tools = Sequence[Tool[Any, Any]]


def warn_once(faults: Iterable[str], told: set[str]) -> None:
    """Log the faults of policies that are not among those told before."""
    for fault in faults:
        if fault not in told:
            told.add(fault)
            log.warning("%s", fault)


def naming(policies: Iterable[ToolPolicy]) -> list[ToolPolicy]:
    """Return the policies that say what they name, without what keeps their records."""
    plain = (each.policy if isinstance(each, PersistentPolicy) else each for each in policies)
    return [each for each in plain if [*_selectors(each)] or hasattr(each, "misfits")]


Absent = Mapping[str, str | None]
"""The remedies for tools that are not there, by their names; None for names that come later."""


def faults_of(
    policies: Iterable[ToolPolicy], tools: Tools, absent: Absent, source: str = ""
) -> list[str]:
    """Return for each policy that names what none of the tools has, what that is.

    Nothing is said of names, and globs of them, that come later. A misfit that ends with a full
    stop has told its remedy. `source` stands before each.
    """

    def may_come(name: str) -> bool:
        return any(absent[other] is None and _may_overlap(name, other) for other in absent)

    found: list[str] = []
    for policy in naming(policies):
        selectors = [*_selectors(policy)]
        faults = [fault for each in selectors for fault in each.faults(tools, may_come)]
        if not any(each.missing(tools) for each in selectors):
            faults += getattr(policy, "misfits", _none)(tools, may_come)
        if faults:
            told = f"Policy {policy.name!r} {'; it '.join(dict.fromkeys(faults))}"
            if not told.endswith("."):
                missing = [name for each in selectors for name in each.missing(tools)]
                told += f". This part of the policy has no effect. {_remedy(missing, absent)}"
            found.append(f"{source}{told}")
    return found


def _remedy(missing: Iterable[str], absent: Absent) -> str:
    asking = {absent[own] for name in missing for own in absent if fnmatchcase(own, name)} - {None}
    if not asking:
        return "Fix the names, or load the plugin that offers them."
    return f"Tools are offered on request: {'; '.join(sorted(map(str, asking)))}."


def _selectors(policy: ToolPolicy) -> Iterator[ToolSelector]:
    if selector := selector_of(policy):
        yield selector
    if names := getattr(policy, "governed", ()):
        yield ToolSelector(tools=frozenset(names))


def _none(tools: Tools, may_come: object) -> list[str]:  # noqa: ARG001 - as `misfits`
    return []


def tools_within(prompt: Prompt, catalog: Catalog) -> Tools:
    """Return every tool there is, in a section that is open or not, here or elsewhere."""
    here = (tool for section in prompt.everywhere() for tool in section.tools)
    # The prompt has a tool as it is called, where the configuration corrects what is said of it.
    return list({tool.name: tool for tool in (*section_tools(), *catalog, *here)}.values())


def ruled_by_tables(settings: Settings, plugins: Plugins) -> Iterator[Any]:
    """Yield what tables of a configuration rule by name, as if they were policies.

    These are the tools that a person approves, and those that plugins' settings take away.
    """
    tables = settings.tools.items()
    names = frozenset(name for name, table in tables if table.requires_confirmation)
    yield SimpleNamespace(name="[tools.NAME]", governed=names)
    if not isinstance(settings.approve_diff, bool):
        yield SimpleNamespace(name="approve_diff", governed=frozenset(settings.approve_diff))
    for table, ruled in plugins.governed_tools().items():
        yield SimpleNamespace(name=table, governed=ruled)


def tools_known_to(section: Section, tools: Tools) -> Tools:
    """Return the tools as a section's own policies know them.

    Those of a plugin that the configuration has renamed know them as their author named them.
    """
    originals: Mapping[str, Tool[Any, Any]] = getattr(section, "originals", None) or {}
    return [*(tool for tool in tools if tool.name not in originals), *originals.values()]


def _may_overlap(name: str, other: str) -> bool:
    """Tell whether two names, both of which may be globs, may mean one tool."""
    if fnmatchcase(name, other) or fnmatchcase(other, name):
        return True
    # Of two globs no more is compared than what stands before their first wildcards.
    one, two = (_WILD.split(glob, maxsplit=1) for glob in (name, other))
    return len(one) == len(two) > 1 and (one[0].startswith(two[0]) or two[0].startswith(one[0]))

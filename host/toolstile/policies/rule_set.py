"""The rules of a section, its prompt, the host and the plugins' hooks."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

from toolstile.plugins.contributions import class_of_kind
from toolstile.plugins.registry import Plugins
from toolstile.policies.rules import (
    DENIED_BY_DEFAULT,
    Hear,
    PolicyScope,
    Rule,
    ScopedPolicy,
    heard,
    knowing,
    named,
    refuse_duplicates,
    refusing_servers,
    rules_of_plugins,
    selector_of,
)
from toolstile.settings import Settings, validate_table
from toolstile.settings.model import NO_FILE
from toolstile.settings.table_validation import beside, expanded, fields, show
from toolstile_hookspecs import (
    Catalog,
    ConfigurationError,
    PersistentPolicy,
    Prompt,
    Section,
    Tool,
    ToolPolicy,
    ToolSelector,
)
from toolstile_hookspecs.execution.prompt_tools import section_tools
from toolstile_hookspecs.support.text import suggest


class Governed(Protocol):
    """The host, as far as rules are made of it."""

    configuration: Settings
    policies: tuple[ToolPolicy, ...]
    plugins: Plugins
    stray_names: set[str]

    @property
    def catalog(self) -> Catalog:
        """The tools of all plugins."""
        ...

    def wrong_rules(self) -> list[str]:
        """Return the unknown names in the configuration and in sections of plugins."""
        ...

    @property
    def prompt(self) -> Prompt:
        """The prompt made of the sections of all plugins."""
        ...


class PromptRules:
    """The rules that apply at this moment to the tools of a prompt; `shared` apply to all."""

    def __init__(
        self,
        host: Governed,
        prompt: Prompt,
        refusing: Sequence[Rule] = (),
        *,
        hear: Hear | None = None,
    ) -> None:
        self._host = host
        self._hear = hear
        self._prompt = prompt
        self._places = _places(prompt.sections)
        self._shared = [*named(prompt.policies, place="prompt"), *host.policies]
        self._tools = tools_within(prompt, host.catalog)
        self._absent = host.plugins.absent_tools()
        rules = [*map(self._rule_of, self._shared), *self._hook_rules()]
        wrong = host.wrong_rules()
        if prompt is host.prompt:
            wrong += faults_of(host.policies, self._tools, self._absent)
        if wrong:
            # Of the tools of a server that came when the host was open already.
            rules.append(refusing_servers(" ".join(dict.fromkeys(wrong))))
        rules += refusing
        if host.configuration.policy.default == "deny":
            rules.append(DENIED_BY_DEFAULT)
        self.shared = rules

    def add_child(self, policies: Sequence[ToolPolicy]) -> None:
        """Add a child's policies, behind the default: they allow nothing more than before."""
        self._shared += policies
        self.shared += map(self._rule_of, policies)

    def of(self, section: Section) -> list[Rule]:
        return [*self._own(section), *self.shared]

    def everywhere(self) -> list[Rule]:
        """Return all rules there are; `DefinitionError` if two policies have one name."""
        policies: list[ToolPolicy] = []
        rules: list[Rule] = []
        for section in self._prompt.everywhere():
            policies += _policies_of(section, self._places)
            rules += self._own(section)
        refuse_duplicates([*policies, *self._shared])
        unique = {rule.name: rule for rule in [*rules, *map(self._rule_of, self._shared)]}
        return [*unique.values(), *self._hook_rules()]

    def tell_of_strays(self) -> None:
        """Warn of policies that rule by a name which no tool has, such as one misspelt."""
        wrong = faults_of(self._shared, self._tools, self._absent)
        wrong += faults_of_sections(self._prompt, self._tools, self._absent)
        for fault in wrong:
            if fault not in self._host.stray_names:
                self._host.stray_names.add(fault)
                log.warning("%s", fault)

    def _own(self, section: Section) -> list[Rule]:
        rules = [*map(self._rule_of, _policies_of(section, self._places))]
        # Of the tools of a plugin that the configuration has renamed.
        originals: Mapping[str, Tool[Any, Any]] | None = getattr(section, "originals", None)
        return rules if originals is None else [knowing(rule, originals) for rule in rules]

    def _hook_rules(self) -> list[Rule]:
        hooks = self._host.plugins.implementations
        rules = rules_of_plugins(hooks("toolstile_check"), hooks("toolstile_on_result"))
        return [heard(rule, self._hear) for rule in rules]

    def _rule_of(self, policy: ToolPolicy) -> Rule:
        return ScopedPolicy.rule_of(policy, self._hear)


def faults_of_sections(
    prompt: Prompt, tools: Sequence[Tool[Any, Any]], absent: Mapping[str, str | None]
) -> list[str]:
    """Return the unknown names in policies of sections; see `faults_of`."""
    places = _places(prompt.sections)
    return [
        fault
        for section in prompt.everywhere()
        if section.policies
        for fault in faults_of(
            _policies_of(section, places), tools_known_to(section, tools), absent
        )
    ]


def _policies_of(section: Section, places: Mapping[int, str]) -> list[ToolPolicy]:
    return named(section.policies, place=places.get(id(section), section.key))


def _places(sections: Sequence[Section], above: str = "") -> dict[int, str]:
    """Return by identity where each section stands: a key is unique among siblings only."""
    places: dict[int, str] = {}
    for section in sections:
        path = places[id(section)] = f"{above}{section.key}"
        places.update(_places(section.children, f"{path}."))
    return places


# --- Policies of the configuration


OWN_KEYS: Final = ("kind", "keep")
"""The keys of a table that are the host's; all others are the kind's fields."""
SCOPE_KEYS: Final = frozenset({"users", "groups", "shadow"})
"""Keys that are the host's, too, where the kind has no fields of these names."""


def make_policies(settings: Settings, kinds: Mapping[str, type[Any] | str]) -> list[ToolPolicy]:
    """Return the policies of the `[[policies]]` tables, in order.

    A `ConfigurationError` names the file, the table, the key and the expected value of all faults.
    """
    if not settings.policies:
        # Because no path needs completion, the working directory may be missing.
        return []
    directory = Path.cwd() if settings.path is None else settings.path.parent
    made: list[ToolPolicy] = []
    faults: list[str] = []
    for position, table in enumerate(settings.policies, 1):
        place = f"{settings.path or NO_FILE}, [[policies]] number {position}"
        try:
            made.append(_policy(table, kinds, position, place, directory))
        except ConfigurationError as error:
            faults.append(str(error))
    if faults:
        raise ConfigurationError("\n".join(faults))
    return made


def _policy(
    table: Mapping[str, Any],
    kinds: Mapping[str, type[Any] | str],
    position: int,
    place: str,
    directory: Path,
) -> ToolPolicy:
    named_kind = table.get("kind")
    if not isinstance(named_kind, str) or named_kind not in kinds:
        known = ", ".join(sorted(kinds)) or "none; no loaded plugin offers any"
        hint = suggest(str(named_kind), kinds)
        msg = f"{place}: kind: {named_kind!r} is not a known kind of policy{hint} (known: {known})."
        raise ConfigurationError(msg)
    kind = class_of_kind(named_kind, kinds[named_kind])
    others = (*OWN_KEYS, *sorted(SCOPE_KEYS.difference(fields(kind))))
    given = {key: value for key, value in table.items() if key not in others}
    if "name" in fields(kind):
        given.setdefault("name", f"{table['kind']}@host#{position}")
    policy: ToolPolicy = validate_table(
        kind, beside(directory, given, kind), plugin=None, source=place, others=others
    )
    scope = {key: table[key] for key in others if key in table and key in SCOPE_KEYS}
    if scope:
        found = validate_table(PolicyScope, scope, plugin=None, source=place)
        policy = cast("ToolPolicy", ScopedPolicy(policy, found))
    if "keep" not in table:
        return policy
    file = table["keep"]
    if not isinstance(file, str) or not file:
        msg = f"{place}: keep: expected text, the name of a JSON file, found {show(file)}."
        raise ConfigurationError(msg)
    if "name" in fields(policy.__class__) and "name" not in table:
        raise ConfigurationError(
            f"{place}: keep: a policy that is kept needs a name, under which the file knows it; "
            "add name = '...'."
        )
    return PersistentPolicy(policy, directory / expanded(Path(file)))


# --- Names in policies that no tool has


log = logging.getLogger("toolstile.policies.names")

_WILD: Final = re.compile(r"[*?\[]")

Tools = Sequence[Tool[Any, Any]]


def naming(policies: Iterable[ToolPolicy]) -> list[ToolPolicy]:
    """Return the policies that list the names they use, without their record keepers."""
    plain = (each.policy if isinstance(each, PersistentPolicy) else each for each in policies)
    return [each for each in plain if [*_selectors(each)] or hasattr(each, "misfits")]


Absent = Mapping[str, str | None]
"""The remedies for tools that are not there, by their names; None for names that come later."""


def faults_of(
    policies: Iterable[ToolPolicy], tools: Tools, absent: Absent, source: str = ""
) -> list[str]:
    """Return a text for each policy that uses a name of no tool.

    Nothing is said of names, and globs of them, that come later. A misfit that ends with a full
    stop holds its remedy already. `source` stands before each.
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
    # A prompt's tool, with the corrections of the configuration, wins over the catalog's.
    return list({tool.name: tool for tool in (*section_tools(), *catalog, *here)}.values())


def ruled_by_tables(settings: Settings, plugins: Plugins) -> Iterator[Any]:
    """Yield the names that tables of a configuration rule by, as if they were policies.

    These are the tools that a person approves, and the tools that plugins' settings remove.
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

    Policies of a plugin with a prefix know its tools by the names of their author.
    """
    originals: Mapping[str, Tool[Any, Any]] = getattr(section, "originals", None) or {}
    return [*(tool for tool in tools if tool.name not in originals), *originals.values()]


def _may_overlap(name: str, other: str) -> bool:
    if fnmatchcase(name, other) or fnmatchcase(other, name):
        return True
    # Of two globs only the texts before their first wildcards are compared.
    one, two = (_WILD.split(glob, maxsplit=1) for glob in (name, other))
    return len(one) == len(two) > 1 and (one[0].startswith(two[0]) or two[0].startswith(one[0]))

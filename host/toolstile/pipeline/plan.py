"""Plans: everything about a tool's calls that is known before the first of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from toolstile.drivers.job import HandlerTiming
from toolstile.plugins.inspection import Implementation
from toolstile.plugins.offered_tools import section_of, serving_wire_names
from toolstile.plugins.registry import Plugins
from toolstile.policies.rule_set import Governed, PromptRules
from toolstile.policies.rules import CONTAINED_ONLY, CONTAINED_TOGETHER, Hear, Rule
from toolstile.prompt_overrides import section_failed
from toolstile_hookspecs import (
    Catalog,
    ConfigurationError,
    OpenedSections,
    Prompt,
    Section,
    SessionProtocol,
    Tool,
    ToolPolicy,
    ToolSelector,
    Visibility,
)
from toolstile_hookspecs.selectors import fits
from toolstile_hookspecs.support.text import near
from toolstile_hookspecs.tools import HostDefault

if TYPE_CHECKING:
    from toolstile.state.session import Session

# --- The message for a tool that cannot be called


ALIKE: Final = 0.7
"""The similarity for a suggestion, higher than elsewhere: a model calls what it reads."""
SUGGESTED: Final = 3
LISTED: Final = 10
SHOWN: Final = 80
"""Characters shown of a name that the model made up."""
_TEXT: Final[Any] = str


@dataclass(frozen=True, slots=True)
class UnknownTools:
    """The messages for tools that cannot be called.

    Args:
        names: The tools that can be.
        behind: The section to open first, by tool.
        switched_off: The plugins that are switched off.
        left_out: Why tools that there are cannot be called, by their names.
        withheld: How a person asks for tools of plugins, by their names.
        only: The selectors that the tool of a lookup hook must fit, too.
    """

    names: tuple[str, ...]
    behind: Mapping[str, str]
    switched_off: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    withheld: Mapping[str, str] = field(default_factory=dict[str, str])
    only: tuple[ToolSelector, ...] = ()

    def explain(self, name: str) -> str:
        """Return the reason why a tool is missing, and the remedy."""
        if not isinstance(name, _TEXT):
            return f"Unknown tool {name!r}: a tool's name is a text. Give one, then retry."
        if (why := self.left_out.get(name)) is not None:
            return why
        if name in self.withheld:
            return f"{name} is not offered here. Use another tool."
        section = self.behind.get(name)
        if section is not None:
            return (
                f"{name} cannot be called yet: its section {section!r} is shown as a summary. Call "
                f"open_sections with {section!r}, then retry."
            )
        shown = name if len(name) <= SHOWN else f"{name[:SHOWN]}..."
        return f"Unknown tool {shown!r}{self._remedy(name[:SHOWN].lower())}{self._aside()}"

    def _remedy(self, name: str) -> str:
        offered = list(_nearest(name, self.names))
        if offered:
            return f". Did you mean {' or '.join(offered)}? Use that, then retry."
        hidden = list(_nearest(name, tuple(self.behind)))
        if hidden:
            section = self.behind[hidden[0]]
            return (
                f". Did you mean {hidden[0]}? It belongs to the section {section!r}: call "
                f"open_sections with {section!r}, then retry with that."
            )
        if not self.names:
            return "; no tools can be called here."
        listed = ", ".join(self.names[:LISTED])
        more = len(self.names) - LISTED
        rest = f" and {more} more" if more > 0 else ""
        return f". The tools are: {listed}{rest}. Use one of these, then retry."

    def _aside(self) -> str:
        names = ", ".join(self.switched_off)
        if not names:
            return ""
        what = "a plugin that is" if len(self.switched_off) == 1 else "plugins that are"
        return f" It may be one of {what} switched off here: {names}."


def behind_summaries(prompt: Prompt, session: SessionProtocol) -> dict[str, str]:
    """Return by name the tools in sections shown as summaries, and the section to open."""
    return {
        name: place.path
        for place in prompt.places(session)
        if not place.open
        for name in _names_within(place.section)
    }


def _names_within(section: Section) -> Iterator[str]:
    for tool in section.tools:
        yield tool.name
        if tool.wire_name is not None:
            yield tool.wire_name
    for child in section.children:
        yield from _names_within(child)


def _nearest(name: str, known: tuple[str, ...]) -> Iterable[str]:
    """Return the names that are one slip away, or that a word begins which was left unfinished."""
    slips = near(name, known, SUGGESTED, ALIKE)
    begun = [each for each in known if name and each.startswith(f"{name}_")]
    return dict.fromkeys([*slips, *begun][:SUGGESTED])


# --- The plan of a tool


Implementations = tuple[Implementation, ...]


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """The plan of one tool's calls.

    Args:
        tool: The tool.
        invoke: Its handler in its full form, None where only a plugin can run it.
        is_async: Whether calling the handler gives a coroutine.
        timeout: Its timeout in seconds, None for never.
        checks: The rules that are asked.
        reserves: The rules that take a place.
        on_results: The rules that hear of a success.
        on_rollbacks: The rules that hear of a rollback.
        on_failures: The rules that see a failed result.
        change_checks: The rules that check the files that a call has changed.
        shares_params: Whether params can be shared, because nothing in them can change.
        shares_value: Whether values can be shared, because nothing in them can change.
        confirms: Whether a person must approve every call.
        approves_diff: Whether a person who is asked is shown the diff, after it has run.
        shows_diff: Whether the diff may have to be shown, to a person or in a dry run.
        snapshots: The plugins that may take part in its transactions.
        executes: The plugins that may answer in its handler's place.
        runs_here: Whether its handler may run on the thread of the caller.
        wraps: Whether the handler returns the value, not a result.
        pace: How long its handler takes on a worker thread.
    """

    tool: Tool[Any, Any]
    invoke: Callable[..., Any] | None
    is_async: bool
    timeout: float | None
    checks: tuple[Rule, ...]
    reserves: tuple[Rule, ...]
    on_results: tuple[Rule, ...]
    on_rollbacks: tuple[Rule, ...]
    on_failures: tuple[Rule, ...]
    change_checks: tuple[Rule, ...]
    shares_params: bool
    shares_value: bool
    confirms: bool
    approves_diff: bool
    shows_diff: bool
    snapshots: Implementations
    executes: Implementations
    runs_here: bool = False
    wraps: bool = False
    pace: HandlerTiming = field(default_factory=HandlerTiming, compare=False)


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    """The plan of an executor's calls, whatever the tool.

    Args:
        timeout: Seconds for tools that do not say, None for never.
        approve_diff: Whether contained tools run before a person is asked, or which.
        dry_run: Whether nothing is kept.
        keeps_together: Whether the calls are kept by one decision, or not at all.
        hear: Receives the decision of each policy.
        only: The selectors of a child and its parents; a tool must fit all of them.
        rules: The policies of a child and its parents, beside all others.
    """

    timeout: float | None
    approve_diff: bool | Collection[str] = False
    dry_run: bool = False
    keeps_together: bool = False
    hear: Hear | None = None
    only: tuple[ToolSelector, ...] = ()
    rules: tuple[ToolPolicy, ...] = ()

    def approves_diff(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether a person who is asked is shown the tool's changes."""
        named = self.approve_diff
        wanted = named if isinstance(named, bool) else any(fits(tool, name) for name in named)
        # A serial tool holds its one place, so it cannot wait for a person.
        alone = tool.concurrency == "serial"
        return wanted and bool(tool.contained) and not alone and not self.dry_run


def plan_for(
    tool: Tool[Any, Any],
    own: list[Rule],
    everywhere: list[Rule],
    manner: DispatchOptions,
    plugins: Plugins,
) -> ToolPlan:
    """Return the plan of a tool.

    Its own rules come from its section, its prompt, the host and the plugins' hooks. The rules
    everywhere are all there are: each hears of every success.
    """
    executes = _concerned(plugins.implementations("toolstile_execute"), tool)
    if tool.undo is not None and not any(each.recalls for each in executes):
        raise ConfigurationError(
            f"{tool.name} has undo=, but no ledger notes its effects before they happen. Load the "
            "plugin ledger, or remove undo=."
        )
    timeout = manner.timeout if isinstance(tool.timeout, HostDefault) else tool.timeout
    approves_diff = manner.approves_diff(tool)
    hearing = [rule for rule in everywhere if rule.hears is None or rule.hears(tool)]
    elsewhere = tool.handler is None or tool.isolation == "process"
    own = [rule for rule in own if rule.selects is None or rule.selects(tool)]
    return ToolPlan(
        tool=tool,
        invoke=None if elsewhere else tool.signature.invoke,
        is_async=tool.signature.is_async,
        timeout=timeout,
        checks=tuple(
            rule
            for rule in own
            if rule.check is not None and (rule.checks is None or rule.checks(tool))
        ),
        reserves=tuple(rule for rule in own if rule.reserve is not None),
        on_results=tuple(rule for rule in hearing if rule.on_result is not None),
        on_rollbacks=tuple(rule for rule in own if rule.on_rollback is not None),
        on_failures=tuple(rule for rule in hearing if rule.on_failure is not None),
        # Of all sections: a nested call is checked with its caller, perhaps of another section.
        change_checks=tuple(
            rule
            for rule in everywhere
            if rule.check_changes is not None and (rule.selects is None or rule.selects(tool))
        ),
        shares_params=tool.params_codec.immutable,
        shares_value=tool.result_codec.immutable,
        confirms=tool.requires_confirmation,
        approves_diff=approves_diff,
        shows_diff=approves_diff or manner.dry_run,
        snapshots=_concerned(plugins.implementations("toolstile_snapshot"), tool),
        executes=executes,
        runs_here=not (elsewhere or tool.signature.is_async or timeout is not None),
        wraps=tool.signature.wraps,
    )


def with_rules_of(plan: ToolPlan, kin: Iterable[ToolPlan]) -> ToolPlan:
    """Return a plan with all rules of its kin, which are plans of the same tool elsewhere."""
    for each in kin:
        merged: dict[str, Any] = {
            name: _merged(getattr(plan, name), getattr(each, name)) for name in _RULES
        }
        plan = replace(plan, confirms=plan.confirms or each.confirms, **merged)
    return plan


_RULES: Final = ("checks", "reserves", "on_results", "on_rollbacks", "on_failures", "change_checks")


def _concerned(hooks: Implementations, tool: Tool[Any, Any]) -> Implementations:
    return tuple(each for each in hooks if each.applies_to is None or each.applies_to(tool))


def _merged(rules: tuple[Rule, ...], more: tuple[Rule, ...]) -> tuple[Rule, ...]:
    names = {rule.name for rule in rules}
    return (*rules, *(rule for rule in more if rule.name not in names))


@dataclass(frozen=True, slots=True)
class DispatchTable:
    """Everything an executor's calls are dispatched by; built again when plugins change.

    Args:
        generation: The plugins' generation it was made from.
        plans: The plans by name and wire name.
        missing: The messages for tools that cannot be called.
        telemetry: The observers that take the event alone.
        retelling: The observers that also take the call's changes of the session, or its diff.
        describes: Whether one of them takes the diff.
    """

    generation: int
    plans: Mapping[str, ToolPlan]
    missing: UnknownTools
    traces: Implementations
    lookups: Implementations
    parses: Implementations
    parse_wrappers: Implementations
    execute_wrappers: Implementations
    renders: Implementations
    render_wrappers: Implementations
    rollbacks: Implementations
    telemetry: Implementations
    retelling: Implementations
    describes: bool


def table_of(
    plugins: Plugins, plans: Mapping[str, ToolPlan], missing: UnknownTools
) -> DispatchTable:
    """Return the table of the plugins as they are now."""
    hooks: Callable[[str], Implementations] = plugins.implementations
    observers = hooks("toolstile_telemetry")
    return DispatchTable(
        generation=plugins.view.generation,
        plans=plans,
        missing=missing,
        traces=hooks("toolstile_trace"),
        lookups=hooks("toolstile_lookup"),
        parses=hooks("toolstile_parse"),
        parse_wrappers=plugins.wrappers("toolstile_parse"),
        execute_wrappers=plugins.wrappers("toolstile_execute"),
        renders=hooks("toolstile_render"),
        render_wrappers=plugins.wrappers("toolstile_render"),
        rollbacks=hooks("toolstile_rollback"),
        telemetry=tuple(each for each in observers if not each.retells),
        retelling=tuple(each for each in observers if each.retells),
        describes=any(each.wants_diff for each in observers),
    )


def _containing(manner: DispatchOptions) -> tuple[Rule, ...]:
    """Return the rules that refuse tools whose effects could not be rolled back."""
    together = (CONTAINED_TOGETHER,) if manner.keeps_together else ()
    return (CONTAINED_ONLY, *together) if manner.dry_run else together


# --- The plans of a host


MAX_OTHERS: Final = 256
"""The maximum number of kept plans for tools from lookup hooks."""
MAX_PROMPTS: Final = 64
"""The maximum number of prompts, each with its sections as they were shown, of kept plans."""


class PromptPlans:
    """The plans of a prompt's tools, for all sessions that show the same sections.

    Args:
        host: Whose policies and plugins have a say.
        prompt: The prompt.
        session: One of the sessions; decides which sections are part of the prompt.
        manner: How all calls pass.
        parts: The objects that the plans are built from, held because sections are known by id.

    Attributes:
        table: The table that calls are dispatched by.
    """

    __slots__ = ("_everywhere", "_manner", "_others", "_plugins", "_rules", "parts", "table")

    def __init__(
        self,
        host: Governed,
        prompt: Prompt,
        session: Session,
        manner: DispatchOptions,
        parts: Sequence[object],
    ) -> None:
        self.parts = parts
        self._manner = manner
        self._plugins = plugins = host.plugins
        self._others: dict[int, ToolPlan] = {}
        self._rules = rules = PromptRules(host, prompt, _containing(manner), hear=manner.hear)
        if not manner.only:  # a child has fewer tools than the rules may name
            rules.tell_of_strays()
        rules.add_child(manner.rules)
        self._everywhere = rules.everywhere()
        plans: dict[str, ToolPlan] = {}
        prompt.tools(session)
        for section, tool in prompt.offers(session):
            plans[tool.name] = plan_for(tool, rules.of(section), self._everywhere, manner, plugins)
        aliases = serving_wire_names(plan.tool for plan in plans.values())
        known = {wire: plans[tool.name] for wire, tool in aliases.items()}
        missing = UnknownTools(
            names=tuple(plans),
            behind=behind_summaries(prompt, session),
            switched_off=tuple(each.name for each in plugins.reports if each.status == "blocked"),
            left_out=getattr(prompt, "left_out", {}),
            withheld=plugins.view.withheld if prompt is host.prompt else {},
            only=manner.only,
        )
        self.table = table_of(plugins, {**plans, **known, **plans}, missing)

    def plan_of(self, tool: Tool[Any, Any]) -> ToolPlan:
        """Return the plan of a tool that a lookup hook gave, which the prompt may not offer."""
        known = self.table.plans.get(tool.name)
        if known is not None and known.tool is tool:
            return known
        plan = self._others.get(id(tool))
        if plan is None or plan.tool is not tool:
            shared = self._rules.shared
            plan = plan_for(tool, shared, self._everywhere, self._manner, self._plugins)
            # A plugin's tool may pass itself off as a known tool.
            kin = (
                known
                for known in self.table.plans.values()
                if known.tool.name == tool.name
                or (tool.handler is not None and known.tool.handler is tool.handler)
            )
            plan = with_rules_of(plan, kin)
            # A plugin may make a tool for each call; the oldest are met least.
            _keep(self._others, id(tool), plan, MAX_OTHERS)
        return plan


class HostPlans:
    """The plans of all sessions of an open host, made once for sessions with the same sections."""

    __slots__ = ("_made", "_sections")

    def __init__(self) -> None:
        self._made: dict[Hashable, PromptPlans] = {}
        self._sections: dict[tuple[Any, ...], tuple[Section, object]] = {}

    def section_of(self, tools: tuple[Any, ...]) -> Section:
        """Return the section of an executor's tools, the same for the same tools."""
        key = tuple(map(id, tools))
        if key not in self._sections:
            # The tools are kept, too: an id is given again once its tool is gone.
            made = section_of(tools, key="executor_tools"), tools
            _keep(self._sections, key, made, MAX_PROMPTS)
        return self._sections[key][0]

    def of(
        self,
        host: Governed,
        prompt: Prompt,
        session: Session,
        manner: DispatchOptions,
        shown: Hashable,
    ) -> PromptPlans:
        """Return the plans of a prompt as the plugins are now; see `shown_of`."""
        parts: list[object] = [*prompt.policies, *manner.rules]
        for section in prompt.everywhere():
            parts += (section, *section.tools, *section.policies)
        told = manner.keeps_together and manner.approve_diff is True
        kind = (host.plugins.view.generation, *_containing(manner), told, manner.hear)
        key = (*kind, manner.only, shown, tuple(map(id, parts)))
        plans = self._made.get(key)
        if plans is None:
            plans = PromptPlans(host, prompt, session, manner, parts)
            _keep(self._made, key, plans, MAX_PROMPTS)
        return plans


def _keep(kept: dict[Any, Any], key: Any, plans: Any, most: int) -> None:
    """Keep plans, and the newest of the others, without a lock that an interruption could leave."""
    kept[key] = plans
    if (excess := len(kept) - most) > 0:
        for oldest in list(kept)[:excess]:
            kept.pop(oldest, None)


def changing_sections(prompt: Prompt) -> list[Section]:
    """Return the sections that can become, or cease to be, part of the prompt."""
    return [
        section
        for section in prompt.everywhere()
        if getattr(section, "visibility", None) is Visibility.SUMMARY
        or getattr(section, "enabled", True) is not None
    ]


def shown_of(changing: Iterable[Section], session: Session, catalog: Catalog) -> Hashable:
    """Return the key for the sections that are part of a prompt in a session now."""
    enabled: list[bool] = []
    for section in changing:
        try:
            enabled.append(bool(section.is_enabled(session)))
        except Exception as error:
            raise section_failed(section, "enabled", error, catalog) from error
    return (OpenedSections.of(session), *enabled)

"""The policy `rule`: an expression over a call, and its effect if it holds."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, cast
from weakref import WeakKeyDictionary

from pydantic_core import from_json

from toolstile_hookspecs import (
    DefinitionError,
    PolicyDecision,
    PolicyState,
    Tool,
    ToolContext,
    ToolResult,
)
from toolstile_hookspecs.codecs import as_sentence
from toolstile_hookspecs.diagnostics import NOTICE
from toolstile_hookspecs.selectors import ALL, fits
from toolstile_plugins.policies.checks import SelectingPolicy
from toolstile_plugins.policies.path_arguments import schema_of
from toolstile_plugins.rules.argument_checks import ArgumentChecks, Place
from toolstile_plugins.rules.expressions import Expression, compiled
from toolstile_plugins.rules.helpers import ARGUMENTS, MAKERS, SCHEMAS, SESSION, EvaluationFailed

Reading = Mapping[str, list[float]]
"""From a counted name to the number of calls, and the seconds since the last one."""


class SessionCounts:
    """Counts the successes of tools in the record of a policy, so they roll back with their calls.

    `names` may be globs.
    """

    def __init__(self, policy: str, names: Collection[str]) -> None:
        self._policy = policy
        self._names = names
        self._by_tool: dict[str, list[str]] = {}

    def hears(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether calls of a tool are counted."""
        found = self._by_tool[tool.name] = [name for name in self._names if fits(tool, name)]
        return bool(found)

    def add(self, tool: Tool[Any, Any], context: ToolContext) -> None:
        """Count a success, in `on_result`."""
        state, now = PolicyState.of(context, self._policy), context.clock.now().timestamp()
        counted = [name for name in self._names if fits(tool, name)]
        more = {name: (state.data.get(name, (0,))[0] + 1, now) for name in counted}
        replace(state, data={**state.data, **more}).save(context)

    def readings(self, context: ToolContext) -> list[Reading]:
        """Return the counts that a call sees, and others as if the calls that still run succeed."""
        # Running calls come first: a call that ends meanwhile counts twice rather than never.
        running = Counter[str]()
        own = context.tool_call and context.tool_call.id
        for call in context.inflight:
            if call.call_id == own:
                # A call that reruns after a conflict is among them, once.
                own = None
            else:
                running.update(self._by_tool.get(call.tool_name, ()))
        data, now = PolicyState.of(context, self._policy).data, context.clock.now().timestamp()
        ended = {name: data.get(name, (0, -inf)) for name in self._names}
        settled = {name: [count, max(now - at, 0.0)] for name, (count, at) in ended.items()}
        if not running:
            return [settled]
        more = {name: [settled[name][0] + many, 0.0] for name, many in running.items()}
        return [settled, {**settled, **more}]


log = logging.getLogger("toolstile.rules")

Effect = Literal["allow", "ask", "deny"]
ALLOW: Final = PolicyDecision.allow()


@dataclass(frozen=True, kw_only=True)
class RulePolicy(SelectingPolicy):
    """Allows, asks or denies if an expression over the call holds; otherwise it is silent.

    The expression is CEL, over `args`, `tool`, `principal`, `agent`, `session`, `request`, `now`.
    It is checked against the schema of each tool it governs. For a tool without one of its paths
    the rule is silent, unless a call has such an argument all the same. An expression that cannot
    be evaluated denies. While other calls that it counts still run, the stricter of their ends is
    assumed.

    Args:
        effect: `allow`, `ask` or `deny`; of several rules that hold, the strictest counts.
        when: The expression; without one the rule always holds.
        reason: The reason, for the person who is asked and the model that is denied.
        root: The directory of paths, for `path()` of tools that do not use the workspace.
        grant: Whether an `allow` also answers for a coding agent, which then asks no person itself.

    Raises:
        DefinitionError: When the expression is wrong, or its library is not installed.
    """

    wants_params: ClassVar = True

    effect: Effect
    when: str = "true"
    reason: str = ""
    root: Path | None = None
    grant: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grant and self.effect != "allow":
            raise DefinitionError('RulePolicy: grant needs effect = "allow". Take one out.')
        if self.root is not None:
            object.__setattr__(self, "root", Path(self.root).absolute())
            if not self.root.is_dir():
                told = f"root: {self.root} is not a directory. Make it, or name another."
                raise DefinitionError(f"RulePolicy: {told}")
        try:
            _ = self._expression
        except DefinitionError as error:
            raise DefinitionError(f"RulePolicy: when = {self.when!r}: {error}.") from None

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def governed(self) -> frozenset[str]:
        """The names of the tools whose calls it counts."""
        return self._expression.counted

    @cached_property
    def _expression(self) -> Expression:
        return compiled(self.when, self.root)

    @cached_property
    def _counts(self) -> SessionCounts | None:
        return SessionCounts(self.name, self.governed) if self.governed else None

    @property
    def reserve(self) -> Callable[..., PolicyDecision] | None:
        """The check again, as the call is admitted, if the rule denies by a count."""
        return self.check if self._counts is not None and self.effect == "deny" else None

    def checks(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether the rule may hold for a call of the tool."""
        fit = self.fit(tool)
        return bool(fit.faults) or not (fit.missing and fit.is_filled)

    def hears(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether its calls are counted."""
        return self._counts is not None and self._counts.hears(tool)

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Decide by the effect if the expression holds."""
        try:
            if not self.holds(tool, params, context):
                return ALLOW
        except EvaluationFailed as error:
            return PolicyDecision.deny(
                f"Cannot call {tool.label}: a rule on it cannot be evaluated: "
                f"{as_sentence(str(error))} Correct that, then retry {tool.label}; if the "
                "arguments are right, this requires human intervention."
            )
        if self.effect == "deny":
            told = f"{tool.label} cannot be called with such arguments here. Continue without it."
            return PolicyDecision.deny(self.reason or told)
        if self.effect == "ask":
            told = f"A person decides on such calls of {tool.label}."
            return PolicyDecision.ask(self.reason or told)
        # Because of its reason, it counts as more than no objection.
        return PolicyDecision(allowed=True, reason=self.reason or f"Allowed by {self.name}.")

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Count the call, if it is counted."""
        if self._counts is not None:
            self._counts.add(tool, context)

    def holds(self, tool: Tool[Any, Any], params: Any, context: ToolContext) -> bool:
        """Tell whether the expression holds; raise `EvaluationFailed` if it has no value."""
        fit, expression = self.fit(tool), self._expression
        if fit.faults:
            raise EvaluationFailed(f"the rule {self.name} {'; it '.join(fit.faults)}")
        values: dict[str, Any] = {}
        if expression.arguments:
            given: Any = from_json(tool.params_codec.encode(params)) or {}
            if fit.missing and not all(_is_there(given, place) for place in fit.missing):
                return False
            values[ARGUMENTS] = {
                name: given[name] for name in expression.arguments if name in given
            }
        for name in expression.others:
            values[name] = MAKERS[name](tool, context)
        if self._counts is None:
            return expression.evaluate(values)
        found = [
            expression.evaluate({**values, SESSION: reading})
            for reading in self._counts.readings(context)
        ]
        return all(found) if self.effect == "allow" else any(found)

    def silence(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> str:
        """Return why the rule is silent on a call."""
        missing = [".".join(place) for place in sorted(self.fit(tool).missing)]
        if missing:
            return f"It reads {', '.join(missing)}, which {tool.name} does not have."
        return f"It does not hold: {self.when}"

    def misfits(
        self, tools: Sequence[Tool[Any, Any]], may_come: Callable[[str], bool]
    ) -> list[str]:
        """Return the paths that none of its tools has, and the faults for one of them."""
        fits = {tool.name: self.fit(tool) for tool in tools if self.selects(tool)}
        raw = {each: name for name, fit in fits.items() if not fit.missing for each in fit.warnings}
        for warning, name in raw.items():
            log.warning("Policy %r, for %s: it %s", self.name, name, warning, extra=NOTICE)
        for fit in fits.values():
            fit.warnings.clear()
        found: dict[str, str] = {}
        for name, fit in fits.items():
            for fault in () if fit.missing else fit.faults:
                found.setdefault(fault, name)
        told = [f"{fault}, for the tool {name}" for fault, name in found.items()]
        will_come = any(map(may_come, self.tools or {ALL}))
        if not will_come and all(fit.missing for fit in fits.values()):
            missing = [fit.missing for fit in fits.values()]
            places = {place: near for each in missing for place, near in each.items()}
            nowhere = [place for place in places if all(place in each for each in missing)]
            shown = [
                f"{'.'.join(place)}{f' (did you mean {places[place]}?)' if places[place] else ''}"
                for place in sorted(nowhere or places)
            ]
            which = "none of its tools has" if nowhere else "none of its tools has together"
            told += [f"reads {', '.join(shown)}, which {which}"] if shown else []
        return [f"{'; it '.join(told)}. Fix when = {self.when!r}."] if told else []

    def fit(self, tool: Tool[Any, Any]) -> ArgumentChecks:
        """Return how the rule fits a tool, computed once per tool."""
        if (known := self._found_fits.get(tool)) is not None:
            return known
        expression, schema = self._expression, schema_of(tool)
        found = ArgumentChecks(schema or {}, SCHEMAS, is_filled=tool.params_schema is None)
        if schema is None and expression.arguments:
            found.fault("reads arguments of a tool whose types have no JSON Schema")
        else:
            found.check(expression.tree)
        if tool.origin is not None and self.root is None and expression.has_paths:
            found.fault(
                f"normalizes paths of {tool.name} of the server {tool.origin}, whose files are not "
                "in the workspace; give root"
            )
        self._found_fits[tool] = found
        return found

    @cached_property
    def _found_fits(self) -> WeakKeyDictionary[Tool[Any, Any], ArgumentChecks]:
        return WeakKeyDictionary()


def _is_there(given: Mapping[str, Any], place: Place) -> bool:
    """Tell whether a call has an argument that its schema does not declare."""
    value: Any = given
    for name in place[1:]:
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = cast("Mapping[str, Any]", value)[name]
    return True

"""Policies and hook pairs in one shape: rules that a tool's plan lists."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from pydantic import BaseModel, StrictBool

from toolstile.plugins.inspection import Implementation
from toolstile.settings.table_validation import fields, kind_of
from toolstile_hookspecs import (
    DefinitionError,
    PersistentPolicy,
    PolicyDecision,
    Principal,
    SupportsFailure,
    SupportsReserve,
    SupportsRollback,
    Tool,
    ToolContext,
    ToolPolicy,
    ToolSelector,
    Verdict,
)
from toolstile_hookspecs.execution.options import PolicyAnswer
from toolstile_hookspecs.policies import POLICY_METHODS
from toolstile_hookspecs.services.workspace import SupportsChangeCheck
from toolstile_hookspecs.support.text import for_model

Question = Callable[..., Any]
log = logging.getLogger("toolstile.policies")


@dataclass(frozen=True, slots=True)
class Rule:
    """One policy instance, or one plugin's check and on_result hooks."""

    name: str  # the instance's unique name, or `plugin NAME`
    check: Question | None = None  # `(tool, params, *, context)`; None if it has no check
    # `(tool, params, result, *, context)`; None if it remembers no results.
    on_result: Question | None = None
    reserve: Question | None = None  # `(tool, params, *, context)`; None if it reserves nothing
    # `(tool, params, *, context)`; None if it ignores rollbacks.
    on_rollback: Question | None = None
    # `(tool, params, result, *, context)`; None if it ignores failures.
    on_failure: Question | None = None
    # `(tool, changes, *, context)`, None if it does not check changes of files.
    check_changes: Question | None = None
    wants_params: bool = True  # whether it looks at params at all
    # `(tool)`, whether it checks calls of the tool; None for all tools.
    checks: Question | None = None
    # `(tool)`, whether it hears of successes of the tool; None for all tools.
    hears: Question | None = None
    # `(tool)`, whether it governs the tool: checks, reserves, hears of a rollback.
    selects: Question | None = None
    silence: Question | None = None  # `(tool, params, *, context)`, why it says nothing of a call

    @property
    def title(self) -> str:
        plugin = self.name.removeprefix("plugin ")
        return f"Policy {plugin}" if plugin == self.name else f"Plugin {plugin}"


def _asked_once(policy: ToolPolicy, name: str) -> Question | None:
    # A foreign policy may use the name for its counter.
    asked = getattr(policy, name, None)
    if not callable(asked):
        return None

    def answer(tool: Tool[Any, Any]) -> bool:
        try:
            # A method that returns nothing does not switch a policy off.
            return asked(tool) is not False
        except Exception:
            log.exception("%s of policy %s failed; the policy stays on.", name, policy.name)
            return True

    return answer


def rule_of(policy: ToolPolicy) -> Rule:
    """Return the rule that a policy instance is."""
    if isinstance(policy, PersistentPolicy):
        policy = policy.policy
    selector = selector_of(policy)
    return Rule(
        name=policy.name,
        check=policy.check,
        on_result=policy.on_result,
        reserve=policy.reserve if isinstance(policy, SupportsReserve) else None,
        on_rollback=policy.on_rollback if isinstance(policy, SupportsRollback) else None,
        on_failure=policy.on_failure if isinstance(policy, SupportsFailure) else None,
        check_changes=policy.check_changes if isinstance(policy, SupportsChangeCheck) else None,
        wants_params=getattr(policy, "wants_params", True),
        checks=_asked_once(policy, "checks"),
        hears=_asked_once(policy, "hears"),
        selects=None if selector is None else selector.selects,
        silence=getattr(policy, "silence", None),
    )


def selector_of(policy: ToolPolicy) -> ToolSelector | None:
    """Return the selector of the tools that a policy governs, or None."""
    # A foreign policy may use the name for something else.
    selector = getattr(policy, "selector", None)
    return selector if isinstance(selector, ToolSelector) else None


def rules_of_plugins(
    checks: Sequence[Implementation], on_results: Sequence[Implementation]
) -> list[Rule]:
    """Return one rule for each hook of a plugin, in the order of the hooks."""
    rules = [
        Rule(f"plugin {hook.plugin}", check=hook.call, wants_params=hook.wants_params)
        for hook in checks
    ]
    rules += [
        Rule(f"plugin {hook.plugin}", on_result=hook.call, wants_params=hook.wants_params)
        for hook in on_results
    ]
    return rules


def named(policies: Iterable[ToolPolicy], *, place: str) -> list[ToolPolicy]:
    """Return the policies; policies without a name are named by kind, place and position.

    `DefinitionError`: one is not a policy, or can have no name.
    """
    found: list[ToolPolicy] = []
    for position, policy in enumerate(policies, 1):
        methods = (callable(getattr(policy, method, None)) for method in POLICY_METHODS)
        if isinstance(policy, type) or not all(methods):
            raise DefinitionError(
                f"A policy was expected in {place}, not {kind_of(policy)}; give an instance that "
                f"has {' and '.join(POLICY_METHODS)}."
            )
        given: Any = policy
        if not getattr(policy, "name", None):
            if "name" not in fields(cast("Any", type(policy))):
                fault = f"The policy in {place}, {kind_of(policy)}, has no name"
                raise DefinitionError(f"{fault}; add the attribute `name`.")
            name = {"name": f"{type(policy).__name__}@{place}#{position}"}
            is_model = isinstance(policy, BaseModel)
            given = given.model_copy(update=name) if is_model else replace(given, **name)
        found.append(given)
    return found


def refuse_duplicates(policies: Iterable[ToolPolicy]) -> None:
    """Raise `DefinitionError` for two policies of one name, since they would share one memory."""
    seen: dict[str, ToolPolicy] = {}
    for policy in policies:
        if policy.name in seen and seen[policy.name] is not policy:
            raise DefinitionError(
                f"Two policies have the name {policy.name!r} and would share one state; give "
                "one of them another name, with name=... ."
            )
        seen[policy.name] = policy


def _refusing(name: str, reason: Callable[[Tool[Any, Any]], str | None]) -> Rule:
    """Return the rule that tools for which there is a reason are not called."""

    def check(tool: Tool[Any, Any], params: object, context: object) -> PolicyDecision:  # noqa: ARG001 - a check
        why = reason(tool)
        return PolicyDecision.deny(why) if why else PolicyDecision.allow()

    return Rule(name, check, wants_params=False)


def _uncontained(
    where: str, remedy: str, *, can_undo: bool = False
) -> Callable[[Tool[Any, Any]], str | None]:
    return lambda tool: (
        None
        if tool.contained or (can_undo and tool.undo is not None)
        else f"{tool.label} is not contained: its effects could not be rolled back, so it cannot "
        f"run in {where}. {remedy}"
    )


CONTAINED_ONLY: Final = _refusing("dry run", _uncontained("a dry run", "Continue without it."))
"""The rule of a dry run."""

CONTAINED_TOGETHER: Final = _refusing(
    "transaction",
    _uncontained("a transaction", "Continue without it, or call it after the end.", can_undo=True),
)
"""The rule of a transaction."""

DENIED_BY_DEFAULT: Final = _refusing(
    "policy.default",
    lambda tool: f"{tool.label} cannot be called so: no rule allows it. Continue without it.",
)
"""The rule, asked last, of `default = "deny"`; it holds where no other allows or asks."""


def refusing_servers(why: str) -> Rule:
    """Return the rule that no tool of a server is called, as a policy may be meant for it."""
    told = (
        f"cannot be called: a policy may have been meant for it. {for_model(why)} "
        "This requires human intervention."
    )
    return _refusing(
        "policies that name no tool",
        lambda tool: tool.origin and f"{tool.label} {told} Continue without it.",
    )


def knowing(rule: Rule, originals: Mapping[str, Tool[Any, Any]]) -> Rule:
    """Return a rule that is shown tools as their author named them, and tells them as they go.

    `originals` are the tools of the policy's plugin by the names that they go by.
    """
    if not originals:
        return rule
    names = {tool.name: name for name, tool in originals.items()}
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")

    def told(decision: Any) -> Any:
        if not isinstance(decision, PolicyDecision) or decision.reason is None:
            return decision
        reason = pattern.sub(lambda found: names[found[0]], decision.reason)
        return replace(decision, reason=reason)

    def asked(question: Question | None, *, of_own: bool = False) -> Question | None:
        if question is None:
            return None

        def ask(tool: Tool[Any, Any], *args: Any, **kwargs: Any) -> Any:
            # A foreign tool may have the name of another tool that the policy means.
            if of_own and tool.name in names and tool.name not in originals:
                return None
            return then(question(originals.get(tool.name, tool), *args, **kwargs), told)

        return ask

    return replace(
        rule,
        check=asked(rule.check),
        on_result=asked(rule.on_result, of_own=True),
        reserve=asked(rule.reserve),
        on_rollback=asked(rule.on_rollback),
        on_failure=asked(rule.on_failure, of_own=True),
        check_changes=asked(rule.check_changes),
        checks=asked(rule.checks),
        hears=asked(rule.hears),
        selects=asked(rule.selects),
        silence=asked(rule.silence),
    )


def then(decision: Any, change: Question, failed: Question | None = None) -> Any:
    """Return a decision after a function, now or when it is awaited."""
    if not inspect.isawaitable(decision):
        return change(decision)

    async def later() -> Any:
        try:
            return change(await decision)
        except Exception:
            if failed is None:
                raise
            return failed()

    return later()


# --- Rules that are heard


Hear = Callable[[PolicyAnswer], object]
COUNTS: Final = "It counts the call once nothing else is against it."
OF_OTHERS: Final = "It decides for other users or groups."


def heard(rule: Rule, hear: Hear | None, *, in_shadow: bool = False) -> Rule:
    """Return the rule with a listener; unchanged if the listener is None.

    The listener also hears of tools that the rule has no opinion on, with the reason.
    """
    question = rule.check
    if hear is None or question is None:
        return rule

    def ask(tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> Any:
        is_asked = rule.checks is None or rule.checks(tool)

        def tell(decision: Any) -> Any:
            if not isinstance(decision, PolicyDecision):
                return decision
            verdict, why = decision.verdict, decision.reason
            if verdict is Verdict.ALLOW and why is None:
                # A foreign policy may use the name for something else.
                silence = rule.silence if callable(rule.silence) else None
                told = silence and silence(tool, params, context=context)
                told = OF_OTHERS if isinstance(told, PolicyDecision) else told
                why = told or (COUNTS if rule.reserve else "")
                if why or is_asked:
                    hear(PolicyAnswer(rule.name, None, why, in_shadow))
            else:
                hear(PolicyAnswer(rule.name, verdict, why or "", in_shadow))
            return decision

        if not is_asked:
            return tell(PolicyDecision.allow())
        return then(question(tool, params, context=context), tell)

    return replace(rule, check=ask, checks=None)


# --- Policies with a scope


SHADOW: Final = "shadow"
"""The attributes `shadow.NAME` of events, with the decisions of policies in the shadow."""
_FAILED: Final = "Policy %s failed in the shadow; no call is affected."


@dataclass(frozen=True, slots=True)
class PolicyScope:
    """The calls for which a policy decides."""

    # The ids of principals, or their source, a space and the id; None for all.
    users: frozenset[str] | None = None
    # Groups; each of these principals is in one. None for all.
    groups: frozenset[str] | None = None
    shadow: StrictBool = False  # whether it decides nothing, and only records its decision

    def __post_init__(self) -> None:
        for name in ("users", "groups"):
            if getattr(self, name) is not None and not getattr(self, name):
                told = "it names none, so it would rule no one; name some, or leave it out"
                raise DefinitionError(f"{name}: {told}.")

    def narrowed(self, rule: Rule, hear: Hear | None = None) -> Rule:
        """Return the rule narrowed to these calls, with a listener."""
        if self.users is not None or self.groups is not None:
            rule = replace(
                rule,
                check=self._of_principals(rule.check),
                check_changes=self._of_principals(rule.check_changes),
                reserve=self._of_principals(rule.reserve),
                silence=self._of_principals(rule.silence or (lambda *_, **__: None)),
            )
        rule = heard(rule, hear, in_shadow=self.shadow)
        if self.shadow:
            rule = replace(
                rule,
                check=_noting(rule.check, rule.name),
                check_changes=_noting(rule.check_changes, rule.name),
                reserve=_noting(rule.reserve, rule.name),
                on_result=_harmless(rule.on_result, rule.name),
            )
        return rule

    def concerns(self, principal: Principal) -> bool:
        spelt = {principal.id, f"{principal.source} {principal.id}"}
        return (self.users is None or not self.users.isdisjoint(spelt)) and (
            self.groups is None or not self.groups.isdisjoint(principal.groups)
        )

    def _of_principals(self, question: Question | None) -> Question | None:
        if question is None:
            return None

        def ask(*args: Any, context: ToolContext) -> Any:
            if context.principal is not None:
                concerned = self.concerns(context.principal)
                return question(*args, context=context) if concerned else PolicyDecision.allow()
            # Because the principal is unknown and may be one of these, the rule objects at most.
            return then(question(*args, context=context), _objections)

        return ask


@dataclass(frozen=True, slots=True)
class ScopedPolicy:
    """A policy with the calls for which it decides; all else is the policy's own."""

    policy: ToolPolicy
    scope: PolicyScope

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)

    @classmethod
    def rule_of(cls, policy: ToolPolicy, hear: Hear | None = None) -> Rule:
        """Return the rule of a policy, narrowed if the policy has a scope."""
        inner = policy.policy if isinstance(policy, PersistentPolicy) else policy
        if isinstance(inner, cls):
            return inner.scope.narrowed(rule_of(inner.policy), hear)
        return heard(rule_of(policy), hear)


def _objections(decision: Any) -> Any:
    is_plain = isinstance(decision, PolicyDecision) and decision.verdict is Verdict.ALLOW
    return PolicyDecision.allow() if is_plain else decision


def _noting(question: Question | None, name: str) -> Question | None:
    """Return a question that notes the decision, and allows the call."""
    if question is None:
        return None

    def ask(*args: Any, context: ToolContext) -> Any:
        def note(decision: Any) -> PolicyDecision:
            if isinstance(decision, PolicyDecision) and decision is not PolicyDecision.allow():
                context.set_attribute(f"{SHADOW}.{name}", decision.verdict.value)
            return PolicyDecision.allow()

        def failed() -> PolicyDecision:
            log.exception(_FAILED, name)  # noqa: LOG004 - called in handlers
            return note(PolicyDecision.deny("It could not decide."))

        try:
            return then(question(*args, context=context), note, failed)
        except Exception:  # noqa: BLE001 - logged
            return failed()

    return ask


def _harmless(question: Question | None, name: str) -> Question | None:
    if question is None:
        return None

    def tell(*args: Any, context: ToolContext) -> Any:
        try:
            return question(*args, context=context)
        except Exception:
            log.exception(_FAILED, name)
            return None

    return tell

"""Policies of tables that hold for some principals only, or are tried out in the shadow."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import Any, Final

from pydantic import StrictBool

from toolstile.policies.rules import Hear, Question, Rule, heard, rule_of, then
from toolstile_hookspecs import (
    DefinitionError,
    PersistentPolicy,
    PolicyDecision,
    Principal,
    ToolContext,
    ToolPolicy,
    Verdict,
)

SHADOW: Final = "shadow"
"""The attributes of events of calls, `shadow.NAME`, with what policies in the shadow say."""
_FAILED: Final = "Policy %s failed in the shadow; no call is affected."
log = logging.getLogger("toolstile.policies")


@dataclass(frozen=True, slots=True)
class PolicyScope:
    """The calls for which a policy decides.

    Args:
        users: The ids of principals, or their source, a space and the id; None for all.
        groups: Groups, of which each of these principals is in one; None for all.
        shadow: Whether it decides nothing, and only notes what it would have said.
    """

    users: frozenset[str] | None = None
    groups: frozenset[str] | None = None
    shadow: StrictBool = False

    def __post_init__(self) -> None:
        """Refuse lists that name nobody."""
        for name in ("users", "groups"):
            if getattr(self, name) is not None and not getattr(self, name):
                told = "it names none, so it would rule no one; name some, or leave it out"
                raise DefinitionError(f"{name}: {told}.")

    def narrowed(self, rule: Rule, hear: Hear | None = None) -> Rule:
        """Return the rule as it decides for these calls, and as somebody hears it."""
        if self.users is not None or self.groups is not None:
            rule = dataclasses.replace(
                rule,
                check=self._of_principals(rule.check),
                check_changes=self._of_principals(rule.check_changes),
                reserve=self._of_principals(rule.reserve),
                silence=self._of_principals(rule.silence or _no_reason),
            )
        rule = heard(rule, hear, in_shadow=self.shadow)
        if self.shadow:
            rule = dataclasses.replace(
                rule,
                check=_noting(rule.check, rule.name),
                check_changes=_noting(rule.check_changes, rule.name),
                reserve=_noting(rule.reserve, rule.name),
                on_result=_harmless(rule.on_result, rule.name),
            )
        return rule

    def concerns(self, principal: Principal) -> bool:
        """Tell whether a principal is one of these."""
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
            # Nobody is named, so it may be one of these: it objects, and allows nothing.
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
        """Return the rule that a policy is, narrowed where it has a scope."""
        inner = policy.policy if isinstance(policy, PersistentPolicy) else policy
        if isinstance(inner, cls):
            return inner.scope.narrowed(rule_of(inner.policy), hear)
        return heard(rule_of(policy), hear)


def _no_reason(*_: Any, context: ToolContext) -> None:  # noqa: ARG001 - as `silence`
    return None


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

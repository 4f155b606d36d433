"""Rules that are heard: somebody is told what each says of a call, also where it is nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from toolstile.policies.rules import Rule, then
from toolstile_hookspecs import PolicyDecision, Tool, ToolContext, Verdict
from toolstile_hookspecs.execution.options import PolicyAnswer

Hear = Callable[[PolicyAnswer], object]
COUNTS: Final = "It counts the call once nothing else is against it."
OF_OTHERS: Final = "It decides for other users or groups."


def heard(rule: Rule, hear: Hear | None, *, in_shadow: bool = False) -> Rule:
    """Return the rule as somebody hears it; None for nobody.

    It is asked also about tools of which it can say nothing, to tell why.
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
                # A policy of somebody's may have something else of that name.
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

    return dataclasses.replace(rule, check=ask, checks=None)

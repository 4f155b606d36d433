"""How policies of all places decide together, and what they hear."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolyard_hookspecs import (
    ApprovalAnswer,
    DefinitionError,
    MarkdownSection,
    PolicyDecision,
    PolicyState,
    Status,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)


@dataclass
class Policy:
    """A stranger's policy: says what it is told to, and notes what it hears."""

    name: str
    says: Any = field(default_factory=PolicyDecision.allow)
    heard: list[str] = field(default_factory=list[str])
    fails_in: str = ""

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> Any:
        self.heard.append(f"check {tool.name}")
        if self.fails_in == "check":
            raise RuntimeError("secret of the policy")
        return self.says

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        self.heard.append(f"result {tool.name}")
        if self.fails_in == "on_result":
            raise RuntimeError("vetoed")
        state = PolicyState.of(context, self.name)
        state.with_tool(tool.name).with_key(tool.name, "k").save(context)

    def on_rollback(self, tool: Any, params: Any, *, context: ToolContext) -> None:
        self.heard.append(f"rollback {tool.name}")


def test_policies_of_section_prompt_and_host_are_all_asked_before_the_handler(yard, steps):
    section, prompt, host = Policy("section"), Policy("prompt"), Policy("host")
    yard.open(steps("a", policies=(section,)), policies=(prompt,), host_policies=(host,))
    assert yard("a").success
    assert [each.heard for each in (section, prompt, host)] == [["check a", "result a"]] * 3


def test_all_are_asked_also_after_one_has_denied_and_all_reasons_are_told(yard, steps):
    first = Policy("first", PolicyDecision.deny("No one."))
    last = Policy("last", PolicyDecision.deny("No two."))
    yard.open(steps("a", policies=(first,)), host_policies=(last,))
    outcome = yard("a")

    assert (outcome.status, outcome.text) == (Status.DENIED, "No one.\nNo two.")
    assert last.heard == ["check a"]
    assert [each.policy for each in outcome.event.decisions] == ["first", "last"]


def test_deny_over_ask_over_allow(yard, steps):
    asked = []

    def approve(request):
        asked.extend(request.reasons)
        return ApprovalAnswer.approve()

    ask, also = (Policy(name, PolicyDecision.ask(f"{name}?")) for name in ("one", "two"))
    denies = Policy("denies", PolicyDecision.deny("No."))
    yard.open(
        steps("a", policies=(ask, also)),
        steps("b", key="other", policies=(Policy("asks", PolicyDecision.ask("b?")), denies)),
        host_policies=(Policy("allows"),),
        approver=approve,
    )
    assert yard("a").success
    assert asked == ["one?", "two?"]
    assert yard("b").text == "No."
    assert asked == ["one?", "two?"]


@pytest.mark.parametrize("answer", [None, True, "allow", 1])
def test_what_is_no_decision_denies_except_none(yard, steps, answer):
    yard.open(steps("a", policies=(Policy("odd", answer),)))
    assert yard("a").success is (answer is None)


def test_a_policy_that_raises_denies_and_tells_nothing_of_itself(yard, steps):
    yard.open(steps("a", policies=(Policy("broken", fails_in="check"),)))
    outcome = yard("a")

    assert outcome.status is Status.DENIED
    assert "The policy broken could not decide" in outcome.text
    assert "requires human intervention" in outcome.text
    assert "secret" not in outcome.text


def test_checks_may_be_async(yard, steps):
    async def later():
        await asyncio.sleep(0)
        return PolicyDecision.deny("Later: no.")

    class Slow(Policy):
        def check(self, tool, params, *, context):
            return later()

    yard.open(steps("a", policies=(Slow("slow"),)))
    assert yard("a").text == "Later: no."


def test_on_result_reaches_policies_of_other_sections_only_after_a_success(yard, steps):
    far = Policy("far")
    yard.open(steps("a"), steps("b", key="other", policies=(far,)))
    yard("a", fail=True)
    assert far.heard == []
    yard("a")
    assert far.heard == ["result a"]


def test_an_on_result_that_raises_vetoes_and_everything_is_rolled_back(yard, steps):
    first, veto = Policy("first"), Policy("veto", fails_in="on_result")
    yard.open(steps("a", policies=(first, veto)))
    outcome = yard("a")

    assert outcome.status is Status.ERROR
    assert outcome.event.rolled_back
    assert not yard.session[PolicyState].all()
    assert first.heard == ["check a", "result a", "rollback a"]


def test_rollback_news_reach_the_policies_of_the_call(yard, steps):
    near, denied = Policy("near"), Policy("denied", PolicyDecision.deny("No."))
    yard.open(steps("a", policies=(near,)), steps("b", key="o", policies=(denied,)))
    yard("a", fail=True)
    yard("b")
    assert near.heard == ["check a", "rollback a"]
    assert denied.heard == ["check b"]


def test_state_is_rolled_back_with_the_call_that_made_the_nested_one(yard, steps):
    @tool
    def outer(*, context: ToolContext) -> ToolResult[None]:
        """Call a, then fail."""
        context.call("a")
        return ToolResult.error("no")

    policy = Policy("policy")
    yard.open(steps("a", policies=(policy,)), MarkdownSection(key="x", title="X", tools=[outer]))
    yard("outer")
    assert not yard.session[PolicyState].all()
    yard("a")
    assert yard.session[PolicyState].all() == [
        PolicyState("policy", frozenset({"a"}), frozenset({("a", "k")}))
    ]


def test_parallel_calls_all_update_one_record(yard, steps):
    names = [f"t{number}" for number in range(12)]
    yard.open(steps(*names, policies=(Policy("policy"),)))
    outcomes = yard.at_once(*((name, {}) for name in names))
    assert all(each.success for each in outcomes)
    assert yard.session[PolicyState].latest().invoked_tools == set(names)


def test_a_check_can_change_nothing(yard, steps):
    class Meddler(Policy):
        def check(self, tool, params, *, context):
            PolicyState(self.name).with_tool("x").save(context)
            return PolicyDecision.allow()

    yard.open(steps("a", policies=(Meddler("meddler"),)))
    assert yard("a").status is Status.DENIED
    assert not yard.session[PolicyState].all()


def test_a_pair_of_hooks_is_a_policy_too(yard, steps):
    class Plugin:
        @hookimpl
        def toolyard_check(self, tool):
            return PolicyDecision.deny("The plugin says no.") if tool.name == "a" else None

    yard.open(steps("a", "b"), host_policies=(Policy("allows"),), plugins=[Plugin()])
    assert yard("a").text == "The plugin says no."
    assert yard("b").success


def test_a_policy_without_a_name_that_cannot_be_given_one_is_refused(yard, steps):
    class Nameless:
        check = Policy.check
        on_result = Policy.on_result

    yard.open(steps("a", policies=(Nameless(),)))
    with pytest.raises(DefinitionError, match="has no name"):
        yard("a")

"""Policies of all places decide together, and hear of results."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from toolstile_hookspecs import (
    ApprovalAnswer,
    DefinitionError,
    MarkdownSection,
    PolicyDecision,
    PolicyState,
    Status,
    ToolContext,
    ToolInvoked,
    ToolResult,
    VisibilityExpansionRequired,
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


@pytest.mark.parametrize("place", ["section", "prompt", "host"])
def test_a_denial_of_any_place_is_enough(yard, steps, place):
    said = {each: Policy(each) for each in ("section", "prompt", "host")}
    said[place].says = PolicyDecision.deny(f"The {place} says no.")
    yard.open(
        steps("a", policies=(said["section"],)),
        policies=(said["prompt"],),
        host_policies=(said["host"],),
    )
    assert yard("a").text == f"The {place} says no."


def test_a_section_governs_its_own_tools_and_not_those_of_its_children(yard, steps):
    inner = steps("inner", key="inner")
    denies = Policy("denies", PolicyDecision.deny("No."))
    yard.open(
        MarkdownSection(
            key="outer",
            title="Outer",
            tools=steps("outer").tools,
            policies=[denies],
            children=[inner],
        )
    )
    assert (yard("outer").text, yard("inner").success) == ("No.", True)


@pytest.mark.parametrize("how", ["bound", "enabled", "opened"])
def test_sections_that_come_later_bring_their_policies_along(yard, steps, how):
    late = MarkdownSection(
        key="late",
        title="Late",
        tools=steps("a").tools,
        policies=[Policy("denies", PolicyDecision.deny("No."))],
        enabled=lambda session: how != "enabled" or bool(session[PolicyState].all()),
        visibility="summary" if how == "opened" else "full",
        summary="More.",
    )
    early = steps("free", key="early", policies=(Policy("hears"),))
    yard.open(early, *([late] if how != "bound" else []))
    assert yard("a").status is Status.UNKNOWN_TOOL
    if how == "bound":
        prompt = yard.tools.prompt.bind(sections=[late])
        yard.tools = yard.enter(yard.host.executor(session=yard.session, prompt=prompt))
    elif how == "opened":
        yard.tools.expand(VisibilityExpansionRequired(("late",)))
    assert yard("free").success
    assert yard("a").text == "No."


def test_reasons_are_told_in_the_order_of_section_prompt_and_host(yard, steps):
    section, other, prompt, host = (
        Policy(name, PolicyDecision.deny(f"{name}.")) for name in ("s1", "s2", "prompt", "host")
    )
    yard.open(steps("a", policies=(section, other)), policies=(prompt,), host_policies=(host,))
    assert yard("a").text == "s1.\ns2.\nprompt.\nhost."


def test_a_denial_without_a_reason_says_who_denied(yard, steps):
    yard.open(steps("a", policies=(Policy("curfew", PolicyDecision(allowed=False)),)))
    assert yard("a").text == "Policy curfew does not allow a."


def test_policies_are_asked_after_lookup_and_parse_and_before_the_handler(yard):
    happened = []

    @tool
    def double(number: int) -> int:
        """Double a number."""
        happened.append("handler")
        return number * 2

    class Watching(Policy):
        def check(self, tool, params, *, context):
            happened.append(("check", tool.name, params.number))
            return PolicyDecision.allow()

        def on_result(self, tool, params, result, *, context):
            happened.append(("result", params.number, result.value))

    section = MarkdownSection(key="s", title="S", tools=[double], policies=[Watching("watching")])
    yard.open(section)
    assert not yard("triple", number=2).success
    assert yard("double", number="2").status is Status.INVALID
    assert happened == []
    assert yard("double", number=2).success
    assert happened == [("check", "double", 2), "handler", ("result", 2, 4)]


def test_a_policy_may_go_by_anything_that_the_session_holds(yard, steps):
    class Budget(Policy):
        def check(self, tool, params, *, context):
            used = sum(each.success for each in context.session[ToolInvoked].all())
            return PolicyDecision.deny(f"{used} used.") if used >= 2 else PolicyDecision.allow()

    yard.open(steps("a", policies=(Budget("budget"),)))
    assert [yard("a").success for _ in range(3)] == [True, True, False]
    assert yard("a").text == "2 used."


def test_a_policy_that_seeds_its_record_leaves_those_of_others_alone(yard, steps):
    class Seeding(Policy):
        def on_result(self, tool, params, result, *, context):
            state = PolicyState.of(context, self.name)
            context.session[PolicyState].seed(state.with_tool(tool.name))

    yard.open(steps("a", "b", policies=(Seeding("one"), Seeding("two"))))
    yard("a")
    yard("b")
    assert {each.policy_name: each.invoked_tools for each in yard.session[PolicyState].all()} == {
        "one": {"a", "b"},
        "two": {"a", "b"},
    }


def test_a_policy_that_raises_denies_each_call_of_a_batch_that_it_governs(yard, steps):
    broken = Policy("broken", fails_in="check")
    yard.open(steps("a", "b", policies=(broken,)), steps("free", key="other"))
    outcomes = yard.at_once(("a", {}), ("free", {}), ("b", {}), ("a", {}))

    assert [each.success for each in outcomes] == [False, True, False, False]
    assert all("could not decide" in each.text for each in outcomes if not each.success)


@pytest.mark.parametrize("wrong", [OSError("disk"), KeyError("x"), RecursionError(), TypeError()])
@pytest.mark.parametrize("later", [False, True])
def test_whatever_a_policy_raises_denies(yard, steps, wrong, later):
    async def fail():
        raise wrong

    class Failing(Policy):
        def check(self, tool, params, *, context):
            if later:
                return fail()
            raise wrong

    yard.open(steps("a", policies=(Policy("fine"), Failing("failing"))))
    outcome = yard("a")
    assert outcome.status is Status.DENIED
    assert "The policy failing could not decide" in outcome.text


def test_a_veto_in_a_batch_takes_back_one_call_and_no_other(yard, steps):
    class Veto(Policy):
        def on_result(self, tool, params, result, *, context):
            super().on_result(tool, params, result, context=context)
            if tool.name == "b":
                raise RuntimeError("vetoed")

    yard.open(steps("a", "b", "c", policies=(Veto("veto"),)))
    outcomes = yard.at_once(*((name, {}) for name in "abc"))
    assert [each.success for each in outcomes] == [True, False, True]
    assert yard.session[PolicyState].latest().invoked_tools == {"a", "c"}


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
        def toolstile_check(self, tool):
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


class Modelled(BaseModel):
    name: str = ""

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.deny(f"{self.name} says no.")

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        pass


def test_a_model_is_given_the_name_that_it_lacks(yard, steps):
    yard.open(steps("a", policies=(Modelled(), Modelled(name="own"))))
    first, second = yard("a").text.splitlines()
    assert first == "Modelled@steps#1 says no."
    assert second == "own says no."


@dataclass(frozen=True)
class WithoutField:
    limit: int = 3
    check = Policy.check
    on_result = Policy.on_result


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (object(), "expected in steps, not an instance of object; give an instance"),
        (Policy, "expected in steps, not the class Policy; give an instance"),
        (WithoutField(), "in steps, an instance of WithoutField, has no name; add"),
    ],
)
def test_what_is_no_policy_is_refused_with_what_it_lacks(yard, steps, policy, told):
    yard.open(steps("a", policies=(policy,)))
    with pytest.raises(DefinitionError) as raised:
        yard("a")
    assert told in str(raised.value)

"""Policies decide and remember."""

import dataclasses

import pytest

from toolstile_hookspecs import (
    PolicyDecision,
    PolicyState,
    SupportsReserve,
    SupportsRollback,
    Verdict,
)


@pytest.mark.parametrize(
    ("decision", "allowed", "verdict"),
    [
        (PolicyDecision.allow(), True, Verdict.ALLOW),
        (PolicyDecision.ask("Why?"), True, Verdict.ASK),
        (PolicyDecision.deny("No."), False, Verdict.DENY),
    ],
)
def test_a_decision_has_one_verdict(decision, allowed, verdict):
    assert (decision.allowed, decision.verdict) == (allowed, verdict)


def test_allowing_costs_nothing_to_make():
    assert PolicyDecision.allow() is PolicyDecision.allow()


def test_reasons_are_kept():
    assert PolicyDecision.deny("No.").reason == "No."
    assert PolicyDecision.allow().reason is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        PolicyDecision.deny("No.").reason = "Yes."


def test_a_record_grows_by_making_another():
    first = PolicyState("rule")
    second = first.with_tool("a").with_key("b", "k").with_tool("a")
    assert second.invoked_tools == {"a"}
    assert second.invoked_keys == {("b", "k")}
    assert first == PolicyState("rule")


class Slice(list):
    def where(self, predicate):
        return [each for each in self if predicate(each)]


class Context:
    def __init__(self):
        self.session = {PolicyState: Slice()}


def test_each_instance_finds_its_own_newest_record():
    context = Context()
    assert PolicyState.of(context, "rule") == PolicyState("rule")
    PolicyState("rule").with_tool("a").save(context)
    PolicyState("other").save(context)
    PolicyState("rule").with_tool("b").save(context)
    assert PolicyState.of(context, "rule").invoked_tools == {"b"}


def test_the_optional_methods_can_be_told():
    class Quota:
        def reserve(self, tool, params, *, context):
            return PolicyDecision.allow()

        def on_rollback(self, tool, params, *, context):
            pass

    assert isinstance(Quota(), SupportsReserve)
    assert isinstance(Quota(), SupportsRollback)
    assert not isinstance(object(), SupportsReserve)

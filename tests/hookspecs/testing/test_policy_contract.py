"""Every check of the contract of policies finds the fault that it is for."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pydantic import BaseModel

from toolstile_hookspecs import PolicyDecision, PolicyState, hookimpl
from toolstile_hookspecs.testing import PolicyContract
from toolstile_hookspecs.testing.suite import STAND_INS, STRANGE_CALLS, approve

READ = ("read_thing", {"name": "x"})
DELETE = ("delete_thing", {"name": "x"})
TESTS = sorted(name for name in vars(PolicyContract) if name.startswith("test_"))


class Policy:
    """A policy without fault, to be made worse."""

    name = "deletions"

    def check(self, tool, params, *, context):
        if tool.category == "delete":
            return PolicyDecision.deny(f"{tool.name} cannot be called. Do without it.")
        return PolicyDecision.allow()

    def on_result(self, tool, params, result, *, context):
        return None


@pytest.fixture
def check(toolstile_tools, caplog):
    """Run one of the contract's tests on a policy."""

    def check(name: str, policy: Any, *, allowed=(READ,), denied=(DELETE,), break_it=None) -> None:
        members = {"allowed": allowed, "denied": denied}
        contract: Any = type("TestBroken", (PolicyContract,), members)()
        is_plugin = hasattr(policy, "toolstile_check")

        def open_with(*others: object) -> Any:
            if is_plugin:
                return toolstile_tools(policy, *STAND_INS, *others, approver=approve)
            return toolstile_tools(*STAND_INS, *others, approver=approve, policies=[policy])

        given = {
            "open_with": open_with,
            "policy": policy,
            "calls": [*allowed, *denied, *STRANGE_CALLS[:8]],
            "break_it": break_it,
            "caplog": caplog,
        }
        test = getattr(contract, name)
        names = test.__code__.co_varnames[1 : test.__code__.co_argcount]
        test(**{each: given[each] for each in names})

    return check


class AsPlugin:
    @hookimpl
    async def toolstile_check(self, tool):
        if tool.category == "delete":
            return PolicyDecision.deny("Nothing is deleted here. Ask a person to do it.")
        return None


class Tuning(BaseModel):
    category: str = "delete"


class Tuned:
    @hookimpl
    def toolstile_settings(self):
        return Tuning

    @hookimpl
    def toolstile_check(self, tool, settings):
        if tool.category == settings.category:
            return PolicyDecision.deny("Nothing is deleted here. Ask a person to do it.")
        return None


def test_a_plugin_is_asked_with_its_settings(check):
    check("test_it_answers_with_decisions", Tuned())


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in TESTS if "failure_inside" not in each])
@pytest.mark.parametrize("policy", [Policy(), AsPlugin()], ids=["policy", "plugin"])
def test_a_good_policy_passes(check, name, policy):
    check(name, policy)


@pytest.mark.parametrize("missing", ["allowed", "denied"])
def test_nothing_is_said_of_it(check, missing):
    with pytest.raises(AssertionError, match=f"Name calls in `{missing}` of TestBroken"):
        check("test_it_is_known_what_it_allows_and_denies", Policy(), **{missing: ()})


def test_it_denies_what_it_should_allow(check):
    with pytest.raises(AssertionError, match="delete_thing cannot be called"):
        check("test_what_is_allowed_goes_on", Policy(), allowed=(DELETE,))


def test_it_allows_what_it_should_deny(check):
    with pytest.raises(AssertionError, match="read_thing"):
        check("test_what_is_denied_does_not_run", Policy(), denied=(READ,))


def test_a_denial_without_advice(check):
    class Curt(Policy):
        def check(self, tool, params, *, context):
            return PolicyDecision.deny("No.")

    with pytest.raises(AssertionError, match=r"'No\.' has no next step"):
        check("test_a_denial_says_what_to_do", Curt())


@pytest.mark.parametrize(
    "answer", [True, "no", PolicyDecision(allowed=False), PolicyDecision(allowed=True, asks=True)]
)
def test_an_answer_that_is_none(check, answer):
    class Odd(Policy):
        def check(self, tool, params, *, context):
            return answer

    with pytest.raises(AssertionError):
        check("test_it_answers_with_decisions", Odd())


def test_a_policy_that_raises_for_what_it_does_not_expect(check):
    class Fragile(Policy):
        def check(self, tool, params, *, context):
            if not params.name:
                raise KeyError(params.name)
            return PolicyDecision.allow()

    with pytest.raises(AssertionError, match="it raised while it was asked"):
        check("test_it_answers_with_decisions", Fragile())


def test_a_policy_that_changes_its_mind(check):
    turns = itertools.count()

    class Moody(Policy):
        def check(self, tool, params, *, context):
            return PolicyDecision.deny(f"Not now ({next(turns)}). Wait, then retry.")

    with pytest.raises(AssertionError, match="read_thing"):
        check("test_equal_calls_get_equal_answers", Moody())


def test_a_policy_that_changes_params(check):
    class Meddling(Policy):
        def check(self, tool, params, *, context):
            params.count += 1
            return PolicyDecision.allow()

    with pytest.raises(AssertionError, match="read_thing"):
        check("test_checking_changes_nothing", Meddling())


def test_a_policy_that_counts_where_it_must_not(check):
    class Counting(Policy):
        def check(self, tool, params, *, context):
            PolicyState.of(context, self.name).with_tool(tool.name).save(context)
            return PolicyDecision.allow()

    with pytest.raises(AssertionError, match="it raised while it was asked"):
        check("test_checking_changes_nothing", Counting())


def test_a_denied_call_that_leaves_something(check, toolstile_tools):
    class SupportsReserve(Policy):
        def check(self, tool, params, *, context):
            return PolicyDecision.allow()

        def reserve(self, tool, params, *, context):
            PolicyState.reserved(context, self.name).with_tool(tool.name).save(context)
            return PolicyDecision.allow()

    with pytest.raises(AssertionError, match="delete_thing"):
        check("test_a_denied_call_leaves_nothing", SupportsReserve())


class BadAtResults(Policy):
    def on_result(self, tool, params, result, *, context):
        raise KeyError(params.name)


class BadAtPlaces(Policy):
    def reserve(self, tool, params, *, context):
        raise KeyError(params.name)


class BadAtRollbacks(Policy):
    def on_rollback(self, tool, params, *, context):
        raise KeyError(params.name)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (BadAtResults(), r"(?s)read_thing .* error: .*KeyError: 'x'"),
        (BadAtPlaces(), "read_thing .*denied: Policy deletions failed to reserve"),
        (BadAtRollbacks(), "read_thing .*cancelled: Policy deletions failed to hear of a rollback"),
    ],
    ids=["on_result", "reserve", "on_rollback"],
)
def test_a_policy_that_fails_after_its_check(check, policy, told):
    with pytest.raises(AssertionError, match=told):
        check("test_it_fails_at_no_call", policy)


def test_a_failure_that_lets_calls_pass(check):
    class Forgiving(Policy):
        broken = False

        def check(self, tool, params, *, context):
            return PolicyDecision.allow()

    class Strict(Forgiving):
        def check(self, tool, params, *, context):
            if self.broken:
                raise OSError("The rules are gone.")
            return PolicyDecision.allow()

    for policy in (Strict(), Forgiving()):

        def break_it(policy=policy):
            policy.broken = True

        if isinstance(policy, Strict):
            check("test_a_failure_inside_denies", policy, break_it=break_it)
        else:
            with pytest.raises(AssertionError):
                check("test_a_failure_inside_denies", policy, break_it=break_it)

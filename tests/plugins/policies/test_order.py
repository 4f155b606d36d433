"""A tool can be called only after others have succeeded."""

from __future__ import annotations

import pytest

from toolstile import Session
from toolstile_hookspecs import (
    DefinitionError,
    MarkdownSection,
    PolicyState,
    Status,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_plugins.policies import SequentialDependencyPolicy

ORDER = SequentialDependencyPolicy(
    dependencies={"build": frozenset({"lint"}), "deploy": frozenset({"test", "build"})}
)
REVIEW = SequentialDependencyPolicy(dependencies={"deploy": frozenset({"review"})})
NAMES = ("lint", "test", "build", "deploy", "review", "other")


@pytest.fixture
def deployment(yard, steps):
    """A section-level and a prompt-level policy, neither of which has a name."""
    return yard.open(steps(*NAMES, policies=(ORDER,)), policies=(REVIEW,))


def test_the_required_order_succeeds(deployment):
    for name in ("lint", "build", "test", "review", "deploy"):
        assert deployment(name).success, name


def test_a_tool_nobody_waits_for_and_that_waits_for_nothing_is_free(deployment):
    assert deployment("other").success
    assert not deployment.session[PolicyState].all()


def test_a_denial_names_every_missing_prerequisite_and_what_to_call_in_order(deployment):
    outcome = deployment("deploy")

    assert outcome.status is Status.DENIED
    assert outcome.text == (
        "Cannot call 'deploy' yet: missing build, test. Call lint and test first, then build, "
        "then retry deploy.\n"
        "Cannot call 'deploy' yet: missing review. Call review first, then retry deploy."
    )


def test_a_denial_names_only_what_is_still_missing(deployment):
    for name in ("lint", "test", "review"):
        deployment(name)
    assert deployment("deploy").text == (
        "Cannot call 'deploy' yet: missing build. Call build first, then retry deploy."
    )


def test_dependencies_can_be_chained(yard, steps):
    chain = SequentialDependencyPolicy(
        dependencies={"deploy": frozenset({"test", "build"}), "release": frozenset({"deploy"})}
    )
    yard.open(steps("test", "build", "deploy", "release", policies=(chain,)))

    assert yard("release").text == (
        "Cannot call 'release' yet: missing deploy. Call build and test first, then deploy, then "
        "retry release."
    )
    for name in ("test", "build", "deploy", "release"):
        assert yard(name).success, name


def test_all_collected_policies_must_allow(deployment):
    for name in ("lint", "build", "test"):
        deployment(name)
    assert "missing review" in deployment("deploy").text
    deployment("review")
    assert deployment("deploy").success


def test_a_denied_tool_does_not_run(yard):
    ran = []

    @tool
    def deploy() -> None:
        """Deploy."""
        ran.append("deploy")

    section = MarkdownSection(key="d", title="D", tools=[deploy], policies=[REVIEW])
    outcome = yard.open(section)("deploy")

    assert (outcome.success, ran) == (False, [])


def test_a_failed_prerequisite_does_not_count(deployment):
    deployment("lint", fail=True)
    assert deployment("build").status is Status.DENIED
    deployment("lint")
    assert deployment("build").success


def test_a_prerequisite_counts_for_the_rest_of_the_session(deployment):
    deployment("lint")
    assert deployment("build").success
    assert deployment("build").success


def test_a_denied_call_does_not_count_as_a_prerequisite(deployment):
    deployment("build")
    deployment("test")
    deployment("review")
    assert "missing build" in deployment("deploy").text


def test_a_prerequisite_may_live_in_another_section(yard, steps):
    needs = SequentialDependencyPolicy(dependencies={"deploy": frozenset({"review"})})
    yard.open(steps("review", key="desk"), steps("deploy", key="ops", policies=(needs,)))

    assert yard("deploy").status is Status.DENIED
    yard("review")
    assert yard("deploy").success


def test_a_sections_policy_does_not_govern_another_sections_tools(yard, steps):
    blocking = SequentialDependencyPolicy(dependencies={"deploy": frozenset({"review"})})
    yard.open(steps("deploy", key="ops"), steps("review", key="desk", policies=(blocking,)))
    assert yard("deploy").success


@pytest.mark.parametrize("level", ["policies", "host_policies"])
def test_policies_of_prompt_and_host_govern_all_tools(yard, steps, level):
    yard.open(steps("deploy", key="ops"), steps("review", key="desk"), **{level: (REVIEW,)})
    assert "missing review" in yard("deploy").text


def test_two_instances_of_one_kind_never_mix(deployment):
    deployment("review")
    deployment("lint")
    records = {each.policy_name: each for each in deployment.session[PolicyState].all()}

    assert records == {
        "SequentialDependencyPolicy@prompt#1": PolicyState(
            "SequentialDependencyPolicy@prompt#1", frozenset({"review"})
        ),
        "SequentialDependencyPolicy@steps#1": PolicyState(
            "SequentialDependencyPolicy@steps#1", frozenset({"lint"})
        ),
    }


def test_sections_of_one_key_in_different_places_do_not_share_a_name(yard, steps):
    inner = [
        MarkdownSection(
            key=key,
            title=key,
            children=[steps("lint" if key == "a" else "build", policies=(ORDER,))],
        )
        for key in ("a", "b")
    ]
    yard.open(*inner)
    assert yard("build").status is Status.DENIED
    yard("lint")
    assert yard("build").success


def test_two_instances_of_one_name_are_refused(yard, steps):
    one, other = (
        SequentialDependencyPolicy(dependencies={each: frozenset({"x"})}, name="same")
        for each in ("a", "b")
    )
    yard.open(steps("a", policies=(one,)), policies=(other,))
    with pytest.raises(DefinitionError, match="'same' and would share one state"):
        yard("a")


def test_a_wire_name_means_the_tool_too(yard, steps):
    needs = SequentialDependencyPolicy(dependencies={"shop.pay": frozenset({"shop.order"})})
    order = steps("shop_order", wire_name="shop.order", key="o")
    yard.open(order, steps("shop_pay", wire_name="shop.pay", policies=(needs,)))

    assert "missing shop.order" in yard("shop.pay").text
    yard("shop_order")
    assert yard("shop_pay").success


def test_a_tool_from_elsewhere_does_not_pass_for_another_by_the_name_it_has_there(yard, steps):
    needs = SequentialDependencyPolicy(dependencies={"deploy": frozenset({"review"})})
    elsewhere = steps("far_review", wire_name="review", origin="far", key="far")
    yard.open(elsewhere, steps("review", "deploy", policies=(needs,)))

    assert yard("far_review").success
    assert "missing review" in yard("deploy").text
    assert yard("review").success
    assert yard("deploy").success


def test_by_its_own_name_a_tool_from_elsewhere_is_meant(yard, steps):
    needs = SequentialDependencyPolicy(dependencies={"deploy": frozenset({"far_review"})})
    elsewhere = steps("far_review", wire_name="review", origin="far", key="far")
    yard.open(elsewhere, steps("deploy", policies=(needs,)))

    assert "missing far_review" in yard("deploy").text
    assert yard("review").success
    assert yard("deploy").success


def test_in_a_batch_a_prerequisite_comes_too_late(deployment):
    lint, build = deployment.at_once(("lint", {}), ("build", {}))
    assert (lint.success, build.status) == (True, Status.DENIED)
    assert deployment("build").success


def test_parallel_prerequisites_all_count(deployment):
    deployment("lint")
    outcomes = deployment.at_once(*((name, {}) for name in ("test", "build", "review")))
    assert all(each.success for each in outcomes)
    assert deployment("deploy").success


def test_what_a_rolled_back_call_had_called_does_not_count(yard, steps):
    @tool
    def check_and_fail(*, context: ToolContext) -> ToolResult[None]:
        """Lint, then fail."""
        assert context.call("lint").success
        inside.append(context.call("build").success)
        return ToolResult.error("no")

    inside = []
    extra = MarkdownSection(key="extra", title="Extra", tools=[check_and_fail])
    yard.open(steps("lint", "build", policies=(ORDER,)), extra)
    yard("check_and_fail")

    assert inside == [True]
    assert yard("build").status is Status.DENIED


def test_snapshot_restore_and_reset_of_the_session_include_it(deployment):
    before = deployment.session.snapshot()
    deployment("lint")
    after = deployment.session.snapshot()

    deployment.session.restore(before)
    assert deployment("build").status is Status.DENIED
    deployment.session.restore(after)
    assert deployment("build").success
    deployment.session.reset()
    assert deployment("build").status is Status.DENIED


def test_each_session_has_its_own(deployment):
    deployment("lint")
    assert deployment.again(Session())("build").status is Status.DENIED
    assert deployment("build").success


def test_it_survives_the_sessions_json(deployment):
    deployment("lint")
    read = Session.from_json(deployment.session.to_json())
    assert deployment.again(read)("build").success


@pytest.mark.parametrize(
    ("dependencies", "circle"),
    [
        ({"a": {"a"}}, "a -> a"),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}}, "a -> b -> c -> a"),
    ],
)
def test_what_could_never_be_satisfied_is_refused(dependencies, circle):
    with pytest.raises(DefinitionError, match=f"in a circle: {circle}"):
        SequentialDependencyPolicy(dependencies=dependencies)

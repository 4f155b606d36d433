"""The planning suite: every rule of its specification, under both drivers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolstile import Host, Session
from toolstile_hookspecs import (
    DefinitionError,
    MarkdownSection,
    Outcome,
    Prompt,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_plugins import planning
from toolstile_plugins.planning import (
    AddStep,
    Plan,
    PlanningStrategy,
    PlanningToolsSection,
    PlanStep,
    SetupPlan,
    UpdateStep,
)


@tool
def plan_and_fail(*, context: ToolContext) -> ToolResult[None]:
    """Change the plan through a nested call, then fail."""
    context.call("planning_add_step", {"steps": ["never"]})
    return ToolResult.error("no")


class Planner:
    def __init__(self, driver: str, tools: Any) -> None:
        self.driver = driver
        self.tools = tools

    def __call__(self, name: str, /, **arguments: Any) -> Outcome:
        call = ToolCall(f"planning_{name}", arguments)
        if self.driver == "sync":
            return self.tools.dispatch(call)
        return asyncio.run(self.tools.adispatch(call))

    @property
    def plan(self) -> Plan | None:
        return self.tools.session[Plan].latest()


@pytest.fixture(params=["sync", "async"])
def planner(request: pytest.FixtureRequest) -> Iterator[Planner]:
    extra = MarkdownSection(key="extra", title="Extra", tools=[plan_and_fail])
    prompt = Prompt.of("tests", "planning", (PlanningToolsSection(), extra))
    with Host(discover=False) as host, host.executor(prompt=prompt) as tools:
        yield Planner(request.param, tools)


def test_setting_up_creates_a_plan_with_numbered_steps(planner: Planner) -> None:
    outcome = planner("setup_plan", objective=" Ship ", initial_steps=[" build ", "test"])

    assert outcome.success
    expected = Plan("Ship", "active", (PlanStep(1, "build"), PlanStep(2, "test")))
    assert planner.plan == outcome.result.value == expected
    assert "1. [ ] build" in outcome.text


def test_setting_up_again_replaces_the_plan(planner: Planner) -> None:
    planner("setup_plan", objective="one", initial_steps=["a"])
    planner("setup_plan", objective="two")

    assert planner.plan == Plan("two")
    assert len(planner.tools.session[Plan].all()) == 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("add_step", {"steps": ["a"]}),
        ("update_step", {"step_id": 1, "status": "done"}),
        ("read_plan", {}),
    ],
)
def test_the_others_need_a_plan(planner: Planner, name: str, arguments: dict[str, Any]) -> None:
    outcome = planner(name, **arguments)

    assert outcome.status is Status.FAILED
    assert "planning_setup_plan first, then retry" in outcome.text
    assert planner.plan is None


def test_ids_go_on_and_are_told(planner: Planner) -> None:
    planner("setup_plan", objective="x", initial_steps=["a"])

    assert "Added steps 2, 3." in planner("add_step", steps=["b", "c"]).text
    assert "Added step 4." in planner("add_step", steps=["d"]).text
    assert [step.step_id for step in planner.plan.steps] == [1, 2, 3, 4]


def test_an_id_is_never_given_again_also_of_a_step_that_is_done(planner: Planner) -> None:
    planner("setup_plan", objective="x", initial_steps=["a", "b", "c"])
    planner("update_step", step_id=2, status="done")

    assert "Added step 4." in planner("add_step", steps=["d"]).text
    planner("update_step", step_id=4, status="done")
    assert "Added step 5." in planner("add_step", steps=["e"]).text
    assert [step.step_id for step in planner.plan.steps] == [1, 2, 3, 4, 5]


def test_a_plan_is_completed_when_all_steps_are_done_and_reopened_by_a_new_one(
    planner: Planner,
) -> None:
    planner("setup_plan", objective="x", initial_steps=["a", "b"])
    assert planner.plan.status == "active"
    planner("update_step", step_id=1, status="done")
    assert planner.plan.status == "active"
    outcome = planner("update_step", step_id=2, status="done")
    assert planner.plan.status == "completed"
    assert "the plan is completed" in outcome.text
    told = planner("add_step", steps=["c"]).text
    assert told.startswith("Added step 3. The plan was completed, and is active again.\n")
    assert planner.plan.status == "active"
    assert [step.step_id for step in planner.plan.steps] == [1, 2, 3]
    assert "active again" not in planner("add_step", steps=["d"]).text


def test_a_plan_without_steps_is_not_completed(planner: Planner) -> None:
    planner("setup_plan", objective="x")
    assert planner.plan.status == "active"


def test_updating_changes_only_what_is_given_and_keeps_notes(planner: Planner) -> None:
    planner("setup_plan", objective="x", initial_steps=["a", "b"])
    planner("update_step", step_id=2, title="B")
    planner("update_step", step_id=2, status="in_progress", note=" saw it ")
    planner("update_step", step_id=2, note="again")

    assert planner.plan.steps == (
        PlanStep(1, "a"),
        PlanStep(2, "B", "in_progress", ("saw it", "again")),
    )


def test_a_text_of_several_lines_is_shown_as_no_other_step() -> None:
    step = PlanStep(1, "Run the tests\n2. [x] Ship it", notes=("Slow.\n3. [x] Rest",))
    assert Plan("Ship\nStatus: completed", steps=(step,)).render() == (
        "Objective: Ship\n"
        "  Status: completed\n"
        "Status: active, 0 of 1 done\n"
        "1. [ ] Run the tests\n"
        "   2. [x] Ship it\n"
        "   - Slow.\n"
        "     3. [x] Rest"
    )


def test_an_unknown_step_is_answered_with_those_there_are(planner: Planner) -> None:
    planner("setup_plan", objective="x", initial_steps=["a", "b"])
    outcome = planner("update_step", step_id=7, status="done")

    assert outcome.status is Status.FAILED
    assert "no step 7" in outcome.text
    assert "1, 2" in outcome.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "faults"),
    [
        ("setup_plan", {"objective": " ", "initial_steps": ["", "x" * 501]}, 3),
        ("add_step", {"steps": ["ok", "  ", "x" * 501]}, 2),
        ("add_step", {"steps": []}, 1),
        ("update_step", {"step_id": 1}, 1),
        ("update_step", {"step_id": 1, "title": " ", "note": " "}, 2),
    ],
)
def test_all_faults_of_the_texts_are_told_at_once(
    planner: Planner, name: str, arguments: dict[str, Any], faults: int
) -> None:
    planner("setup_plan", objective="x", initial_steps=["a"])
    before = planner.plan
    outcome = planner(name, **arguments)

    assert outcome.status is (
        Status.FAILED if name == "update_step" and faults == 1 else Status.INVALID
    )
    assert outcome.text.count("  - ") == faults
    assert planner.plan == before


@pytest.mark.parametrize("title", ["x", "x" * 500, f"  {'x' * 500}  "])
def test_titles_of_1_to_500_characters_are_taken_after_stripping(
    planner: Planner, title: str
) -> None:
    assert planner("setup_plan", objective="x", initial_steps=[title]).success
    assert planner.plan.steps[0].title == title.strip()


def test_an_unknown_status_is_refused_before_the_handler(planner: Planner) -> None:
    planner("setup_plan", objective="x", initial_steps=["a"])
    assert planner("update_step", step_id=1, status="finished").status is Status.INVALID


def test_reading_returns_the_plan(planner: Planner) -> None:
    planner("setup_plan", objective="x", initial_steps=["a"])
    assert planner("read_plan").result.value == planner.plan


def test_a_failed_caller_takes_its_changes_of_the_plan_back(planner: Planner) -> None:
    planner("setup_plan", objective="x", initial_steps=["a"])
    before = planner.plan
    planner.tools.dispatch(ToolCall("plan_and_fail"))
    assert planner.plan == before


def test_parallel_calls_never_tell_an_id_that_is_not_the_steps(planner: Planner) -> None:
    planner("setup_plan", objective="x")
    calls = [ToolCall("planning_add_step", {"steps": [f"s{each}"]}) for each in range(20)]
    if planner.driver == "sync":
        outcomes = planner.tools.dispatch_all(calls)
    else:
        outcomes = asyncio.run(planner.tools.adispatch_all(calls))

    by_title = {step.title: step.step_id for step in planner.plan.steps}
    assert sorted(by_title.values()) == list(range(1, 21))
    for place, outcome in enumerate(outcomes):
        assert f"Added step {by_title[f's{place}']}." in outcome.text


def test_the_section_registers_its_reducers_on_the_session_it_is_given() -> None:
    session = Session()
    PlanningToolsSection(session=session, accepts_overrides=False)
    session.dispatch(SetupPlan("x", ("a",)))
    session.dispatch(AddStep(("b",)))
    session.dispatch(UpdateStep(2, status="done"))

    assert session[Plan].latest() == Plan(
        "x", "active", (PlanStep(1, "a"), PlanStep(2, "b", "done"))
    )


def test_events_before_the_first_call_are_reduced(planner: Planner) -> None:
    session = planner.tools.session
    session.dispatch(SetupPlan("x", ("a",)))
    session.dispatch(AddStep(("b",)))
    assert planner.plan == Plan("x", "active", (PlanStep(1, "a"), PlanStep(2, "b")))
    assert planner("update_step", step_id=2, status="done").success


def test_a_plan_that_is_dispatched_takes_the_place_of_the_one_there_is(planner: Planner) -> None:
    session = planner.tools.session
    for plan in (Plan("one"), Plan("two", steps=(PlanStep(1, "a"),))):
        session.dispatch(plan)
    assert list(session[Plan].all()) == [Plan("two", steps=(PlanStep(1, "a"),))]
    assert planner("read_plan").result.value == planner.plan
    assert list(session[Plan].all()) == [Plan("two", steps=(PlanStep(1, "a"),))]


def test_events_without_a_plan_change_nothing() -> None:
    session = Session()
    PlanningToolsSection(session=session)
    session.dispatch(AddStep(("b",)))
    session.dispatch(UpdateStep(2, status="done"))
    assert session[Plan].latest() is None


def test_no_policy_constrains_planning() -> None:
    assert tuple(PlanningToolsSection().policies) == ()


@pytest.mark.parametrize("accepts", [True, False])
def test_overrides_are_accepted_as_declared(accepts: bool) -> None:
    section = PlanningToolsSection(accepts_overrides=accepts)
    assert {each.accepts_overrides for each in section.tools} == {accepts}


def test_strategies_share_one_structure_and_differ_in_their_mindset() -> None:
    texts = [PlanningToolsSection(strategy=each).template for each in PlanningStrategy]
    parts = [text.split("**Mindset**")[1].split("**Tools**") for text in texts]

    assert len({mindset for mindset, _ in parts}) == 3
    assert len({rest for _, rest in parts}) == 1
    assert PlanningToolsSection().template == texts[0]
    assert "Append the reflection" in texts[1]
    assert "in your own words" in texts[2]


def test_a_strategy_can_be_given_by_its_value() -> None:
    by_value: Any = "plan_act_reflect"
    chosen = PlanningToolsSection(strategy=PlanningStrategy.PLAN_ACT_REFLECT)
    assert PlanningToolsSection(strategy=by_value).template == chosen.template


def test_a_strategy_there_is_not_is_refused_with_those_there_are() -> None:
    unknown: Any = "reakt"
    with pytest.raises(DefinitionError) as raised:
        PlanningToolsSection(strategy=unknown)
    assert str(raised.value) == (
        "PlanningToolsSection: the strategy 'reakt' is unknown; give one of react, "
        "plan_act_reflect, goal_decompose_route_synthesise."
    )


def test_the_plugin_offers_the_section_as_configured() -> None:
    settings = planning.PlanningSettings(strategy="plan_act_reflect")
    (section,) = planning.toolstile_sections(settings)
    assert "lay out the whole plan" in section.template.lower()


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["pending", "done"]))))
def test_the_status_always_follows_the_steps(updates: list[tuple[int, Any]]) -> None:
    session = Session()
    PlanningToolsSection(session=session)
    session.dispatch(SetupPlan("x", ("a", "b", "c")))
    for step_id, status in updates:
        session.dispatch(UpdateStep(step_id, status=status))
        plan = session[Plan].latest()
        assert plan is not None
        done = all(step.status == "done" for step in plan.steps)
        assert plan.status == ("completed" if done else "active")
        assert [step.step_id for step in plan.steps] == [1, 2, 3]

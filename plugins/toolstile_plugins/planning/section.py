"""The planning tools, and their section: one structure with three mindsets."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from toolstile_hookspecs import (
    DefinitionError,
    MarkdownSection,
    SessionProtocol,
    Tool,
    ToolContext,
    ToolExample,
    ToolResult,
    ToolValidationError,
)
from toolstile_plugins.planning.model import (
    AddStep,
    Plan,
    PlanStep,
    ReadPlan,
    SetupPlan,
    UpdateStep,
    register_reducers,
)
from toolstile_plugins.planning.settings import PlanningStrategy

NO_PLAN: Final = "The session has no plan. Call planning_setup_plan first, then retry."


def _set_up(params: SetupPlan, *, context: ToolContext) -> ToolResult[Plan]:
    context.session.dispatch(params)
    return _result(context, "The plan is set up.")


def _add(params: AddStep, *, context: ToolContext) -> ToolResult[Plan]:
    before = context.session[Plan].latest()
    if before is None:
        return ToolResult.error(NO_PLAN)
    context.session.dispatch(params)
    known = {step.step_id for step in before.steps}
    plan = context.session[Plan].latest() or before
    added = [str(step.step_id) for step in plan.steps if step.step_id not in known]
    noun = "step" if len(added) == 1 else "steps"
    reopened = " The plan was completed, and is active again." * (before.status == "completed")
    return _result(context, f"Added {noun} {', '.join(added)}.{reopened}")


def _update(params: UpdateStep, *, context: ToolContext) -> ToolResult[Plan]:
    if params.title is None and params.status is None and params.note is None:
        raise ToolValidationError(
            "Invalid arguments:\n  - give at least one of title, status and note\n"
            "Fix these, then retry."
        )
    plan = context.session[Plan].latest()
    if plan is None:
        return ToolResult.error(NO_PLAN)
    if plan.find(params.step_id) is None:
        ids = ", ".join(str(step.step_id) for step in plan.steps) or "none; add steps first"
        return ToolResult.error(
            f"The plan has no step {params.step_id}. Its steps are: {ids}. Use one of these, then "
            "retry."
        )
    context.session.dispatch(params)
    return _result(context, f"Step {params.step_id} is updated.")


def _read(params: ReadPlan, *, context: ToolContext) -> ToolResult[Plan]:  # noqa: ARG001 - a handler
    plan = context.session[Plan].latest()
    return ToolResult.error(NO_PLAN) if plan is None else ToolResult.ok(plan)


def _result(context: ToolContext, message: str) -> ToolResult[Plan]:
    plan = context.session[Plan].latest()
    if plan is not None and plan.status == "completed":
        message += " All steps are done: the plan is completed."
    return ToolResult.ok(plan, message=message)


_FIRST: Final = Plan("Ship the release", "active", (PlanStep(1, "Run the tests"),))

setup_plan: Final = Tool[SetupPlan, Plan](
    name="planning_setup_plan",
    description="Begin a plan with an objective and first steps, in place of any plan there is.",
    handler=_set_up,
    category="write",
    consequence="low",
    contained=True,
    examples=(
        ToolExample(
            "Plan a release in one step for now",
            SetupPlan("Ship the release", ("Run the tests",)),
            _FIRST,
        ),
    ),
)
add_step: Final = Tool[AddStep, Plan](
    name="planning_add_step",
    description="Add steps at the end of the plan; the answer gives their ids.",
    handler=_add,
    category="write",
    consequence="low",
    contained=True,
)
update_step: Final = Tool[UpdateStep, Plan](
    name="planning_update_step",
    description="Change a step's title or status, or keep a note with it. With the last one done, "
    "the plan is completed.",
    handler=_update,
    category="write",
    consequence="low",
    contained=True,
    examples=(
        ToolExample(
            "Mark a step as begun, with an observation",
            UpdateStep(1, status="in_progress", note="Two tests are slow."),
            Plan(
                "Ship the release",
                "active",
                (PlanStep(1, "Run the tests", "in_progress", ("Two tests are slow.",)),),
            ),
        ),
    ),
)
read_plan: Final = Tool[ReadPlan, Plan](
    name="planning_read_plan",
    description="Read the plan: its objective, status and steps with their ids and notes.",
    handler=_read,
    category="read",
    consequence="low",
)

PLANNING_TOOLS: Final[tuple[Tool[Any, Any], ...]] = (setup_plan, add_step, update_step, read_plan)


_MINDSETS: Final[dict[PlanningStrategy, str]] = {
    PlanningStrategy.REACT: (
        "Work in short turns: think about your knowledge and your next need, call one tool, look "
        "at its result, then think again. Let each observation decide the next action, and do not "
        "plan further than you can see.\n\n"
        "Keep each observation as a note of its step, so that later turns can build on it."
    ),
    PlanningStrategy.PLAN_ACT_REFLECT: (
        "Lay out the whole plan before you act: every step that leads to the objective, in order. "
        "Then carry the steps out one after the other.\n\n"
        "After each step, stop and reflect: is the result as expected, and does the rest of the "
        "plan still hold? Append the reflection to the step as a note, and fix the plan before you "
        "continue."
    ),
    PlanningStrategy.GOAL_DECOMPOSE_ROUTE_SYNTHESISE: (
        "Say the goal again in your own words, and make that the objective. Break it into "
        "problems small enough to be solved one at a time, each of them a step, before you "
        "choose any tool.\n\n"
        "Then route every step to the tool that fits it best and solve it. At the end bring the "
        "results together into one coherent answer to the goal, and keep the results you rely "
        "on as notes of their steps."
    ),
}

_TEMPLATE: Final = """\
Keep a plan for work that takes more than a few actions.

**Mindset**

{mindset}

**Tools**

- `planning_setup_plan` begins a plan: an objective and, if you know them, first steps.
- `planning_add_step` adds steps at the end. Use the ids that it answers with.
- `planning_update_step` changes a step's title or status, or keeps a note with it.
- `planning_read_plan` shows the current plan.

**Rules**

- Mark a step `in_progress` when you begin it and `done` as soon as it is complete.
- Have one step in progress at a time, and keep titles short.
- When all steps are done, the plan is completed by itself."""


def guidance(strategy: object) -> str:
    """Return the section's text: the same structure, with the strategy's mindset."""
    try:
        mindset = _MINDSETS[PlanningStrategy(strategy)]
    except ValueError:
        known = ", ".join(each.value for each in PlanningStrategy)
        msg = f"PlanningToolsSection: the strategy {strategy!r} is unknown; give one of {known}."
        raise DefinitionError(msg) from None
    return _TEMPLATE.format(mindset=mindset)


class PlanningToolsSection(MarkdownSection):
    """Planning tools with guidance on how to use them.

    Args:
        session: Gets the reducers at once; else each session does when it is first used.
        strategy: The mindset that the guidance teaches.
        accepts_overrides: Whether the tools' descriptions may be overridden.

    Raises:
        DefinitionError: For an unknown strategy.

    Example:
        >>> [tool.name for tool in PlanningToolsSection().tools][0]
        'planning_setup_plan'
    """

    def __init__(
        self,
        session: SessionProtocol | None = None,
        *,
        strategy: PlanningStrategy = PlanningStrategy.REACT,
        accepts_overrides: bool = True,
    ) -> None:
        tools = PLANNING_TOOLS
        if not accepts_overrides:
            tools = tuple(dataclasses.replace(tool, accepts_overrides=False) for tool in tools)
        super().__init__(
            key="planning",
            title="Planning",
            template=guidance(strategy),
            tools=tools,
            on_session=register_reducers,
        )
        if session is not None:
            register_reducers(session)

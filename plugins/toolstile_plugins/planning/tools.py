"""The four planning tools."""

from __future__ import annotations

from typing import Any, Final

from toolstile_hookspecs import Tool, ToolContext, ToolExample, ToolResult, ToolValidationError
from toolstile_plugins.planning.model import (
    AddStep,
    Plan,
    PlanStep,
    ReadPlan,
    SetupPlan,
    UpdateStep,
)

NO_PLAN: Final = "There is no plan. Call planning_setup_plan first, then retry."


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
            f"There is no step {params.step_id}. Steps there are: {ids}. Use one of these, "
            "then retry."
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

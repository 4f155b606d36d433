"""The params of the planning tools, which are also the events that change the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from toolstile_hookspecs import SessionProtocol
from toolstile_plugins.planning.model import Plan, StepStatus

MAX_TITLE: Final = 500
MAX_NOTE: Final = 2_000


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """Begin a plan, in place of any there is."""

    objective: str = field(metadata={"description": "What is to be achieved, 1-500 characters."})
    initial_steps: tuple[str, ...] = field(
        default=(), metadata={"description": "Titles of the first steps, 1-500 characters each."}
    )


@dataclass(frozen=True, slots=True)
class AddStep:
    """Add steps at the end of the plan."""

    steps: tuple[str, ...] = field(
        metadata={"description": "Titles of the new steps, 1-500 characters each."}
    )


@dataclass(frozen=True, slots=True)
class UpdateStep:
    """Change a step of the plan."""

    step_id: int = field(metadata={"description": "The id of the step."})
    title: str | None = field(default=None, metadata={"description": "A new title."})
    status: StepStatus | None = field(default=None, metadata={"description": "How far it is."})
    note: str | None = field(
        default=None, metadata={"description": "An observation or reflection to keep with it."}
    )


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Read the plan."""


def register_reducers(session: SessionProtocol) -> None:
    """Let the planning events change the session's `Plan` slice."""
    plans = session[Plan]
    plans.register(SetupPlan, _set_up)
    plans.register(AddStep, _add)
    plans.register(UpdateStep, _update)


def _set_up(plans: Sequence[Any], event: SetupPlan) -> Sequence[Plan]:  # noqa: ARG001 - replaced
    titles = tuple(title.strip() for title in event.initial_steps)
    return [Plan(event.objective.strip()).with_steps(titles)]


def _add(plans: Sequence[Any], event: AddStep) -> Sequence[Plan]:
    if not plans:
        return plans
    plan: Plan = plans[-1]
    return [plan.with_steps(tuple(title.strip() for title in event.steps))]


def _update(plans: Sequence[Any], event: UpdateStep) -> Sequence[Plan]:
    plan: Plan | None = plans[-1] if plans else None
    step = plan.find(event.step_id) if plan is not None else None
    if plan is None or step is None:
        return plans
    if event.title is not None:
        step = replace(step, title=event.title.strip())
    if event.status is not None:
        step = replace(step, status=event.status)
    if event.note is not None:
        step = replace(step, notes=(*step.notes, event.note.strip()))
    return [plan.with_step(step)]

"""The plan, with steps that never change their ids, and the events that change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from toolstile_hookspecs import SessionProtocol

StepStatus = Literal["pending", "in_progress", "done"]
PlanStatus = Literal["active", "completed"]

_MARKS = {"pending": " ", "in_progress": ">", "done": "x"}


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan.

    Args:
        step_id: 1 for the first; never given to another step of the plan.
        title: The task.
        status: The progress.
        notes: Observations and reflections, oldest first.
    """

    step_id: int
    title: str
    status: StepStatus = "pending"
    notes: tuple[str, ...] = ()

    def render(self) -> str:
        """Return the step as a line of a checklist, its notes beneath."""
        lines = [f"{self.step_id}. [{_MARKS[self.status]}] {_within(self.title, 3)}"]
        return "\n".join([*lines, *(f"   - {_within(note, 5)}" for note in self.notes)])


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan; one slice of the session holds the current one.

    Args:
        objective: Its purpose.
        status: `completed` once it has steps and all are done.
        steps: The steps, in order of their ids.
    """

    objective: str
    status: PlanStatus = "active"
    steps: tuple[PlanStep, ...] = ()

    def render(self) -> str:
        """Return the plan as a checklist."""
        done = sum(step.status == "done" for step in self.steps)
        head = [
            f"Objective: {_within(self.objective, 2)}",
            f"Status: {self.status}, {done} of {len(self.steps)} done",
        ]
        return "\n".join([*head, *(step.render() for step in self.steps)])

    def find(self, step_id: int) -> PlanStep | None:
        """Return the step of that id, or None."""
        return next((step for step in self.steps if step.step_id == step_id), None)

    def with_steps(self, titles: tuple[str, ...]) -> Plan:
        """Return the plan with more steps at the end, numbered on."""
        first = 1 + max((step.step_id for step in self.steps), default=0)
        added = tuple(PlanStep(first + place, title) for place, title in enumerate(titles))
        return self._settled((*self.steps, *added))

    def with_step(self, changed: PlanStep) -> Plan:
        """Return the plan with the step of the same id replaced."""
        same = changed.step_id
        return self._settled(
            tuple(changed if step.step_id == same else step for step in self.steps)
        )

    def _settled(self, steps: tuple[PlanStep, ...]) -> Plan:
        finished = bool(steps) and all(step.status == "done" for step in steps)
        return replace(self, steps=steps, status="completed" if finished else "active")


def _within(text: str, margin: int) -> str:
    """Return a text whose further lines are indented, so that none is taken for a step."""
    return f"\n{' ' * margin}".join(text.splitlines())


Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
Note = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """Begin a plan, in place of any there is."""

    objective: Title
    """The thing to achieve."""
    initial_steps: tuple[Title, ...] = ()
    """Titles of the first steps."""


@dataclass(frozen=True, slots=True)
class AddStep:
    """Add steps at the end of the plan."""

    steps: Annotated[tuple[Title, ...], Field(min_length=1)]
    """Titles of the new steps."""


@dataclass(frozen=True, slots=True)
class UpdateStep:
    """Change a step of the plan."""

    step_id: int
    """The id of the step."""
    title: Title | None = None
    """A new title."""
    status: StepStatus | None = None
    """The progress of the step."""
    note: Note | None = None
    """An observation or reflection to keep with it."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Read the plan."""


def register_reducers(session: SessionProtocol) -> None:
    """Let the planning events change the session's `Plan` slice."""
    plans = session[Plan]
    plans.register(Plan, _put)
    plans.register(SetupPlan, _set_up)
    plans.register(AddStep, _add)
    plans.register(UpdateStep, _update)


def _put(plans: Sequence[Any], event: Plan) -> Sequence[Any]:
    # A result that shows the plan, as each of the tools gives, changes nothing.
    return plans if plans and plans[-1] == event else [event]


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

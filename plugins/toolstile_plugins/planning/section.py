"""The planning suite as a section, with one structure and three mindsets."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Final

from toolstile_hookspecs import DefinitionError, MarkdownSection, SessionProtocol
from toolstile_plugins.planning.model import register_reducers
from toolstile_plugins.planning.tools import PLANNING_TOOLS


class PlanningStrategy(Enum):
    """The mindset that the planning section teaches."""

    REACT = "react"
    """Short turns of thought, action and observation."""
    PLAN_ACT_REFLECT = "plan_act_reflect"
    """The whole plan first, and a look back after each step."""
    GOAL_DECOMPOSE_ROUTE_SYNTHESISE = "goal_decompose_route_synthesise"
    """The goal in your own words, its parts, a tool for each, one answer."""


_MINDSETS: Final[dict[PlanningStrategy, str]] = {
    PlanningStrategy.REACT: (
        "Work in short turns: think about what you know and what you need next, call one tool, "
        "look at what it tells you, then think again. Let each observation decide the next "
        "action, and do not plan further than you can see.\n\n"
        "Keep what you observe as a note of the step it belongs to, so that later turns can "
        "build on it."
    ),
    PlanningStrategy.PLAN_ACT_REFLECT: (
        "Lay out the whole plan before you act: every step that leads to the objective, in the "
        "order in which you will take them. Then carry the steps out one after the other.\n\n"
        "After each step, stop and reflect: did it do what you expected, and does the rest of "
        "the plan still hold? Append the reflection to the step as a note, and fix the plan "
        "before you go on."
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
- `planning_read_plan` shows the plan as it is now.

**Rules**

- Mark a step `in_progress` when you begin it and `done` as soon as it is.
- Have one step in progress at a time, and keep titles short.
- When all steps are done, the plan is completed by itself."""


def guidance(strategy: PlanningStrategy) -> str:
    """Return the section's text: the same structure, with the strategy's mindset."""
    return _TEMPLATE.format(mindset=_MINDSETS[strategy])


class PlanningToolsSection(MarkdownSection):
    """Planning tools with guidance on how to use them.

    Args:
        session: Gets the reducers at once; else each session does when it is first used.
        strategy: The mindset that the guidance teaches.
        accepts_overrides: Whether the tools' descriptions may be overridden.

    Raises:
        DefinitionError: When there is no such strategy.

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
            template=guidance(_known(strategy)),
            tools=tools,
            on_session=register_reducers,
        )
        if session is not None:
            register_reducers(session)


def _known(strategy: object) -> PlanningStrategy:
    try:
        return PlanningStrategy(strategy)
    except ValueError:
        known = ", ".join(mindset.value for mindset in PlanningStrategy)
        msg = f"PlanningToolsSection: there is no strategy {strategy!r}; give one of {known}."
        raise DefinitionError(msg) from None

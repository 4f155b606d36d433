"""Planning: tools with which an agent keeps a plan in the session, where they are asked for.

Settings, `[plugins.planning]`: `strategy`, one of `react`, `plan_act_reflect`,
`goal_decompose_route_synthesise`.
"""

from __future__ import annotations

from pydantic import BaseModel

from toolstile_hookspecs import Section, hookimpl
from toolstile_plugins.planning.model import (
    AddStep,
    Plan,
    PlanStatus,
    PlanStep,
    ReadPlan,
    SetupPlan,
    StepStatus,
    UpdateStep,
)
from toolstile_plugins.planning.section import PlanningStrategy, PlanningToolsSection

__all__ = [
    "AddStep",
    "Plan",
    "PlanStatus",
    "PlanStep",
    "PlanningStrategy",
    "PlanningToolsSection",
    "ReadPlan",
    "SetupPlan",
    "StepStatus",
    "UpdateStep",
]

toolstile_on_request = "for planning, add [plugins.planning] to the configuration"


class PlanningSettings(BaseModel):
    """The plugin's table in the configuration.

    Args:
        strategy: The way of working that the section teaches the model. `react` is to think, act
            and look again; `plan_act_reflect` to plan first and reflect on each step.
            `goal_decompose_route_synthesise` is to break the goal into parts and put their
            results together.
    """

    strategy: PlanningStrategy = PlanningStrategy.REACT


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return PlanningSettings


@hookimpl
def toolstile_sections(settings: PlanningSettings) -> list[Section]:
    """Offer the planning section."""
    return [PlanningToolsSection(strategy=settings.strategy)]

"""Planning: tools with which an agent keeps a plan in the session, where they are asked for.

Settings, `[plugins.planning]`: `strategy`, one of `react`, `plan_act_reflect`,
`goal_decompose_route_synthesise`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from toolstile_hookspecs import Section, hookimpl
from toolstile_hookspecs.support.late_names import late_names
from toolstile_plugins.planning.settings import PlanningSettings, PlanningStrategy

if TYPE_CHECKING:
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
    from toolstile_plugins.planning.section import PlanningToolsSection

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

toolstile_on_request = dict.fromkeys(
    ("planning_setup_plan", "planning_add_step", "planning_update_step", "planning_read_plan"),
    "for planning, add [plugins.planning] to the configuration",
)


__getattr__ = late_names(
    __name__,
    {
        "model": "AddStep Plan PlanStatus PlanStep ReadPlan SetupPlan StepStatus UpdateStep",
        "section": "PlanningToolsSection",
    },
)


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return PlanningSettings


@hookimpl
def toolstile_sections(settings: PlanningSettings) -> list[Section]:
    from toolstile_plugins.planning.section import PlanningToolsSection

    return [PlanningToolsSection(strategy=settings.strategy)]

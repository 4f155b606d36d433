"""The settings of planning, the table `[plugins.planning]`."""

from __future__ import annotations

from enum import Enum

from pydantic import BaseModel


class PlanningStrategy(Enum):
    """The mindset that the planning section teaches."""

    REACT = "react"
    """Short turns of thought, action and observation."""
    PLAN_ACT_REFLECT = "plan_act_reflect"
    """The whole plan first, and a look back after each step."""
    GOAL_DECOMPOSE_ROUTE_SYNTHESISE = "goal_decompose_route_synthesise"
    """The goal in your own words, its parts, a tool for each, one answer."""


class PlanningSettings(BaseModel):
    """The plugin's table in the configuration.

    Args:
        strategy: The way of working that the section teaches the model. `react` is to think, act
            and look again; `plan_act_reflect` to plan first and reflect on each step.
            `goal_decompose_route_synthesise` is to break the goal into parts and put their
            results together.
    """

    strategy: PlanningStrategy = PlanningStrategy.REACT

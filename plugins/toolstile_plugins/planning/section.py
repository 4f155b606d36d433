"""The planning suite as a section."""

from __future__ import annotations

import dataclasses

from toolstile_hookspecs import DefinitionError, MarkdownSection, SessionProtocol
from toolstile_plugins.planning.events import register_reducers
from toolstile_plugins.planning.strategies import PlanningStrategy, guidance
from toolstile_plugins.planning.tools import PLANNING_TOOLS


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
        known = ", ".join(each.value for each in PlanningStrategy)
        msg = f"PlanningToolsSection: there is no strategy {strategy!r}; give one of {known}."
        raise DefinitionError(msg) from None

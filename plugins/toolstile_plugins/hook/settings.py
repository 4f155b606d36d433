"""The settings of the hook, the table `[plugins.hook]`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolstile_plugins.hook.agents import AGENTS


class HookSettings(BaseModel):
    """The settings of the hook of coding agents.

    Args:
        protected: Globs of files that no call of an agent may change, and no command may name,
            beside the files that govern the agent.
        idle: Seconds without an event after which the helper process ends.
        wait: Seconds for a decision on a call; without one the call is denied.
        bash: `watch` keeps the files of the workspace before each command: a failed command goes
            back, and the others can be undone. `sandbox` runs them in the sandbox, on a branch of
            the workspace and without a network: only a success lands, and no governing file
            changes; the agent's own rules over commands see the rewritten line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    protected: tuple[str, ...] = ()
    idle: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 900.0
    wait: Annotated[float, Field(gt=0, le=20)] = 15.0
    bash: Literal["watch", "sandbox"] = "watch"

    @property
    def awaited_tools(self) -> tuple[str, ...]:
        """The names of the agents' tools, which policies may name."""
        return (*(name for agent in AGENTS.values() for name in agent.categories), "mcp_*")

"""The settings of agents."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveInt

MAX_TURNS: Final = 50


class AgentSettings(BaseModel):
    """The model that is asked, and the bounds of a run.

    Args:
        model: The model, as `provider:name`.
        base_url: The address of the provider's API, None for the provider's own; with `openai`
            that of anything that speaks like it, such as a model on this machine.
        settings: The settings of the model, such as `temperature`; only these are sent.
        max_turns: The most replies of the model in one run.

    Example:
        >>> AgentSettings(model="openai:qwen3", base_url="http://localhost:11434/v1").max_turns
        50
    """

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    base_url: str | None = None
    settings: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    max_turns: PositiveInt = MAX_TURNS

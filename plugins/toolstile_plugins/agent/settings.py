"""The settings of agents, and the arguments of `toolstile ask` that win over them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, PositiveInt

from toolstile_plugins.agent.budget import Price

MAX_TURNS: Final = 50

_KINDS: Final = "toolstile_plugins.agent.guidance.kinds"  # imported late: few configure any

Table = Mapping[str, Any]


def _provider(table: Table) -> Any:
    return import_module(_KINDS).provider_of(table)


def _checker(table: Table) -> Any:
    return import_module(_KINDS).checker_of(table)


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("an address that begins with http:// or https://")
    return url


class AgentSettings(BaseModel):
    """The model that `toolstile ask` asks, and the bounds of a run.

    Args:
        model: The model, as `provider:name`.
        base_url: The address of the provider's API, None for the provider's own; with `openai`
            that of anything that speaks like it, such as a model on this machine.
        settings: The settings of the model, such as `temperature`; only these are sent.
        max_turns: The most replies of the model in one run.
        prices: By model, the prices of a million tokens, `input`, `output`, `cached` and `written`.
        feedback_providers: Tables with a `kind` of feedback, its fields and those of a trigger.
        task_completion: Tables with a `kind` of checker and its fields; all must pass.

    Example:
        >>> AgentSettings(model="openai:qwen3", base_url="http://localhost:11434/v1").max_turns
        50
    """

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    base_url: Annotated[str, AfterValidator(_address)] | None = None
    settings: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue], repr=False)
    max_turns: PositiveInt = MAX_TURNS
    prices: dict[str, Price] = Field(default_factory=dict[str, Price])
    feedback_providers: tuple[Annotated[dict[str, Any], AfterValidator(_provider)], ...] = ()
    task_completion: tuple[Annotated[dict[str, Any], AfterValidator(_checker)], ...] = ()

"""The settings of agents, the table `[plugins.agent]`."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PositiveInt,
    TypeAdapter,
    ValidationError,
)

from toolstile_hookspecs.codecs import first_fault
from toolstile_plugins.agent.budget import Price
from toolstile_plugins.entry_points import loaded

MAX_TURNS: Final = 50

Table = dict[str, Any]


def _provider(table: Table) -> Any:
    from toolstile_hookspecs.agents import guidance  # late: few tables configure feedback

    triggers = {each.name for each in fields(guidance.FeedbackTrigger)}
    trigger = {key: value for key, value in table.items() if key in triggers}
    own = {key: value for key, value in table.items() if key not in triggers}
    provider = _made("toolstile.feedback", own)
    return guidance.FeedbackProviderConfig(provider, _read(guidance.FeedbackTrigger, trigger))


def _made(group: str, table: Table) -> Any:
    """Return an object of the `kind` in a table; its class takes the other fields."""
    type_ = loaded(group, str(table.get("kind", "")), "kind")
    return _read(type_, {key: value for key, value in table.items() if key != "kind"})


def _read(type_: type[Any], table: Table) -> Any:
    try:
        return TypeAdapter(type_).validate_python(table, extra="forbid")
    except ValidationError as error:
        raise ValueError(first_fault(error)) from None


_checker = partial(_made, "toolstile.completion")


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("an address that begins with http:// or https://")
    return url


class AgentSettings(BaseModel):
    """The model that `toolstile ask` asks, and the limits of a run.

    Args:
        model: The model, as `provider:name`.
        base_url: The address of the provider's API, None for its public one; with `openai` the
            address of any server that is compatible, such as a model on this machine.
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
    feedback_providers: tuple[Annotated[Table, AfterValidator(_provider)], ...] = ()
    task_completion: tuple[Annotated[Table, AfterValidator(_checker)], ...] = ()

"""A prompt's resources are its bindings; entering them opens them for the executors made within."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from toolstile import Host
from toolstile_hookspecs import (
    Binding,
    MarkdownSection,
    Prompt,
    PromptResources,
    ResourceError,
    Scope,
    ToolCall,
    ToolContext,
    tool,
)


@dataclass
class Client:
    """A resource that tells when it is closed."""

    log: list[str] = field(default_factory=list)
    base: str = ""

    def close(self) -> None:
        self.log.append("closed")


class Tracer:
    """A resource for one call."""


@tool(category="read")
def ask(*, context: ToolContext) -> str:
    """Ask the client."""
    client = context.resources.get(Client)
    client.log.append(f"asked {type(context.resources.get(Tracer)).__name__}")
    return f"{client.base} {id(client)}"


def prompt_of(log: list[str]) -> Prompt:
    section = MarkdownSection(key="a", title="A", tools=[ask])
    return Prompt.of("demo", "main", [section]).bind(
        resources={
            str: Binding(str, lambda _: "base"),
            Client: Binding(Client, lambda resources: Client(log, resources.get(str))),
            Tracer: Binding(Tracer, lambda _: Tracer(), scope=Scope.TOOL_CALL),
        }
    )


def asked(host: Host, prompt: Prompt, **options: Any) -> str:
    with host.executor(prompt=prompt, **options) as tools:
        return tools.dispatch(ToolCall("ask")).text


def test_they_are_the_bindings_in_order() -> None:
    prompt = prompt_of([])
    assert [binding.kind for binding in prompt.resources] == [str, Client, Tracer]
    assert prompt.bind(sections=()).resources is prompt.resources
    made = Prompt(prompt.template, resources=(Binding(str, lambda _: ""),))  # type: ignore[arg-type]
    assert isinstance(made.resources, PromptResources)


def test_executors_made_within_use_the_open_singletons_and_leave_them_open() -> None:
    log: list[str] = []
    prompt = prompt_of(log)
    with Host(discover=False) as host:
        with prompt.resources as resources:
            first = asked(host, prompt)
            assert first == asked(host, prompt, tools=[lambda_free]) == f"base {id_of(resources)}"
            assert log == ["asked Tracer", "asked Tracer"]
        assert log[-1] == "closed"
        assert asked(host, prompt) != first
    assert log.count("closed") == 2


def id_of(resources: Any) -> int:
    return id(resources.get(Client))


def lambda_free() -> str:
    """Do nothing."""
    return ""


def test_without_a_block_each_executor_has_its_own() -> None:
    log: list[str] = []
    prompt = prompt_of(log)
    with Host(discover=False) as host:
        asked(host, prompt)
        asked(host, prompt)
    assert log == ["asked Tracer", "closed"] * 2


def test_the_outermost_block_closes() -> None:
    log: list[str] = []
    prompt = prompt_of(log)
    with prompt.resources as outer:
        with prompt.resources as inner:
            assert inner.get(Client) is outer.get(Client)
        assert log == []
        outer.get(Client)
    assert log == ["closed"]
    with pytest.raises(ResourceError, match="after the resources were closed"):
        outer.get(Client)
    with prompt.resources as again:
        assert again.get(Client).base == "base"


def test_the_executors_own_resources_win_over_the_open_ones() -> None:
    prompt = prompt_of([])
    own = Client(base="own")
    with Host(discover=False) as host, prompt.resources:
        assert asked(host, prompt, resources={Client: own}) == f"own {id(own)}"


def fail_with(client: Client) -> None:
    raise KeyError(client.base)


def test_what_is_built_for_a_block_is_closed_after_an_error_too() -> None:
    log: list[str] = []
    with pytest.raises(KeyError), prompt_of(log).resources as resources:
        fail_with(resources.get(Client))
    assert log == ["closed"]

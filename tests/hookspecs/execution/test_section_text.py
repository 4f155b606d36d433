"""Sections whose text depends on the session and its resources, wherever a prompt is rendered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from toolstile import Host, Settings
from toolstile.prompt_overrides import hash_of
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    Binding,
    MarkdownSection,
    Prompt,
    PromptSchema,
    ToolCall,
    ToolContext,
    VisibilityExpansionRequired,
    tool,
)
from toolstile_hookspecs.execution.prompt_parts import SectionText
from toolstile_plugins.agent import Agent


@dataclass(frozen=True)
class Weather:
    """The weather that a session knows."""

    now: str


@dataclass(frozen=True)
class Town:
    """A resource."""

    name: str


class Forecast(MarkdownSection):
    """Shows the weather of the session, in the town of the resources."""

    def text_in(self, session, resources, body):
        weather = None if session is None else session[Weather].latest()
        town = None if resources is None else resources.get(Town, None)
        told = body if weather is None else weather.now
        return SectionText(f"{told} {'' if town is None else town.name}".strip(), told[:4])


@tool
def look(*, context: ToolContext) -> str:
    """Return the prompt as the model reads it."""
    assert context.rendered_prompt is not None
    return context.rendered_prompt.text


def prompt(**more: object) -> Prompt:
    section = Forecast(key="forecast", title="Forecast", template="Dull.", tools=[look], **more)
    return Prompt.of("town", "main", [section])


def executor(host: Host, shown: Prompt):
    tools = host.executor(prompt=shown, resources=(Binding.instance(Town, Town("Ghent")),))
    tools.session[Weather].seed(Weather("Sunny today."))
    return tools


WHOLE = "# Forecast\n\nSunny today. Ghent"


def test_a_prompt_shows_what_session_and_resources_give_a_section():
    with Host(discover=False) as host, executor(host, prompt()) as tools:
        assert tools.prompt.render().text == "# Forecast\n\nDull."
        assert tools.prompt.render(tools.session).text == "# Forecast\n\nSunny today."
        assert tools.prompt.render(tools.session, tools.resources).text == WHOLE
        assert PromptSchema.of(tools.prompt, tools.session, tools.resources).text == WHOLE


def test_a_handler_and_an_agent_read_the_same():
    with Host(discover=False) as host, executor(host, prompt()) as tools:
        assert tools.dispatch(ToolCall("look", {})).text == WHOLE
        model = ScriptedModel("Nice.")
        agent = Agent(tools.prompt, adapter=model, host=host)
        agent.execute("Look.", session=tools.session, resources={Town: Town("Ghent")})
        assert model.requests[0].system == WHOLE


def test_a_summary_is_the_sessions_too_and_opening_shows_the_whole():
    shown = prompt(visibility="summary", summary="Never seen.")
    with Host(discover=False) as host, executor(host, shown) as tools:
        before = tools.prompt.render(tools.session, tools.resources).text
        assert before.startswith("# Forecast\n\nSunn\n\n(This is a summary.")
        read = tools.dispatch(ToolCall("read_section", {"section_key": "forecast"}))
        assert read.text == "Sunny today. Ghent"
        with pytest.raises(VisibilityExpansionRequired) as raised:
            tools.dispatch(ToolCall("open_sections", {"section_keys": ["forecast"]}))
        assert tools.expand(raised.value).text == WHOLE


def test_an_overridden_text_reaches_the_section_as_its_body(tmp_path):
    file = tmp_path / "overrides.toml"
    table = f'[prompts."town/main".sections.forecast]\nhash = "{hash_of("Dull.")}"\n'
    file.write_text(f'{table}text = "Grey."\n')
    with (
        Host(discover=False, settings=Settings(prompt_overrides=file)) as host,
        executor(host, prompt()) as tools,
    ):
        tools.session[Weather].clear()
        assert tools.prompt.render(tools.session, tools.resources).text.endswith("Grey. Ghent")


def test_an_async_call_reads_the_same():
    with Host(discover=False) as host, executor(host, prompt()) as tools:
        assert asyncio.run(tools.adispatch(ToolCall("look", {}))).text == WHOLE

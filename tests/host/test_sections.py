"""Sections that come and go: enabled by the session, or opened by the model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import (
    DefinitionError,
    MarkdownSection,
    Outcome,
    Prompt,
    PromptTemplate,
    PromptValidationError,
    Status,
    ToolCall,
    ToolContext,
    Visibility,
    VisibilityExpansionRequired,
    hookimpl,
    tool,
)


@dataclass(frozen=True)
class Trusted:
    """In the session once the user is trusted."""


@tool
def plain() -> str:
    """Always be there."""
    return "plain"


@tool
def special() -> str:
    """Be there for the trusted."""
    return "special"


@tool
def deep() -> str:
    """Be within a summarised section."""
    return "deep"


SECTIONS = (
    MarkdownSection(key="base", title="Base", template="Hello $name.", tools=[plain]),
    MarkdownSection(
        key="extra",
        title="Extra",
        tools=[special],
        enabled=lambda session: session is not None and session[Trusted].latest() is not None,
    ),
    MarkdownSection(
        key="manual",
        title="Manual",
        template="The whole manual for $name.",
        summary="A manual.",
        visibility=Visibility.SUMMARY,
        children=[MarkdownSection(key="part", title="Part", tools=[deep])],
    ),
)
PROMPT = Prompt(PromptTemplate("tests", "main", SECTIONS)).bind({"name": "Ada"})


@pytest.fixture(params=["sync", "async"])
def dispatch(request: pytest.FixtureRequest) -> Any:
    def run(tools: Any, name: str, **arguments: Any) -> Outcome:
        call = ToolCall(name, arguments)
        if request.param == "sync":
            return tools.dispatch(call)
        return asyncio.run(tools.adispatch(call))

    return run


def test_a_sections_tools_can_be_called_while_it_is_enabled(dispatch: Any) -> None:
    with Host(discover=False) as host, host.executor(prompt=PROMPT) as tools:
        assert dispatch(tools, "special").status is Status.UNKNOWN_TOOL
        tools.session[Trusted].append(Trusted())
        assert dispatch(tools, "special").text == "special"
        tools.session[Trusted].clear()
        assert dispatch(tools, "special").status is Status.UNKNOWN_TOOL


def test_a_handler_sees_its_prompt_rendered_as_its_session_has_it(dispatch: Any) -> None:
    @tool
    def look(*, context: ToolContext) -> str:
        """Return what the model can read and call."""
        before = context.rendered_prompt
        context.session[Trusted].append(Trusted())
        after = context.rendered_prompt
        assert before is not None
        assert after is not None
        assert "# Extra" not in before.text
        return f"{after.text}|{[each.name for each in after.tools]}"

    looking = MarkdownSection(key="looking", title="Looking", tools=[look])
    prompt = PROMPT.bind(sections=[looking])
    with Host(discover=False) as host, host.executor(prompt=prompt) as tools:
        seen = dispatch(tools, "look").text
        assert seen.startswith("# Base\n\nHello Ada.\n\n# Extra")
        assert "'special'" in seen


def test_a_summarised_section_shows_its_summary_and_the_tools_to_open_it() -> None:
    rendered = PROMPT.render()

    assert "A manual." in rendered.text
    assert "The whole manual" not in rendered.text
    assert [each.name for each in rendered.tools] == ["plain", "read_section", "open_sections"]


def test_what_is_within_a_summarised_section_cannot_be_called_until_it_is_opened(
    dispatch: Any,
) -> None:
    with Host(discover=False) as host, host.executor(prompt=PROMPT) as tools:
        assert dispatch(tools, "deep").status is Status.UNKNOWN_TOOL
        reading = dispatch(tools, "read_section", section_key="manual")
        assert reading.text == "The whole manual for Ada."
        with pytest.raises(VisibilityExpansionRequired) as raised:
            dispatch(tools, "open_sections", section_keys=["manual"], reason="to learn")
        rendered = tools.expand(raised.value)

        assert "The whole manual for Ada." in rendered.text
        assert [each.name for each in rendered.tools] == ["plain", "deep"]
        assert dispatch(tools, "deep").text == "deep"
        assert dispatch(tools, "open_sections").status is Status.UNKNOWN_TOOL


def test_a_plugins_summarised_section_stays_one_under_a_prefix(dispatch: Any) -> None:
    class Plugin:
        @hookimpl
        def toolstile_sections(self) -> Any:
            return [replace(SECTIONS[2], template="The whole manual.")]

    settings = Settings(plugins={"Plugin": {"prefix": "x_"}})
    with (
        Host(discover=False, settings=settings, plugins=[Plugin()]) as host,
        host.executor() as tools,
    ):
        assert "A manual." in tools.prompt.render().text
        assert dispatch(tools, "x_deep").status is Status.UNKNOWN_TOOL
        tools.expand(VisibilityExpansionRequired(("x_manual",)))
        assert dispatch(tools, "x_deep").text == "deep"


@pytest.mark.parametrize("keys", [["nothing"], []])
def test_opening_what_is_not_there_is_answered_with_what_is(dispatch: Any, keys: list[str]) -> None:
    with Host(discover=False) as host, host.executor(prompt=PROMPT) as tools:
        outcome = dispatch(tools, "open_sections", section_keys=keys)
        assert outcome.status is Status.FAILED
        assert "There are: manual" in outcome.text


def test_opened_sections_are_the_sessions_own(dispatch: Any) -> None:
    with Host(discover=False) as host, host.executor(prompt=PROMPT) as one:
        one.expand(VisibilityExpansionRequired(("manual",)))
        with host.executor(prompt=PROMPT) as other:
            assert dispatch(one, "deep").success
            assert not dispatch(other, "deep").success


def test_a_summary_needs_a_text() -> None:
    with pytest.raises(DefinitionError, match="summary"):
        MarkdownSection(key="a", title="A", visibility=Visibility.SUMMARY)


def test_a_placeholder_without_a_value_names_section_and_remedy() -> None:
    with pytest.raises(PromptValidationError, match=r"'base'.*\$name has no value.*bind it"):
        Prompt(PromptTemplate("tests", "main", SECTIONS)).render()


def test_binding_adds_sections_params_and_resources() -> None:
    @dataclass
    class Params:
        place: str

    more = MarkdownSection(key="more", title="More", template="In $place.")
    prompt = PROMPT.bind(Params("Turku"), sections=[more], resources={dict: {"a": 1}})

    assert "In Turku." in prompt.render().text
    assert [binding.kind for binding in prompt.resources] == [dict]
    assert PROMPT.resources == ()

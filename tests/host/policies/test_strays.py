"""A policy that rules by a name which no tool has is told of, as its guard would be off."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import (
    MarkdownSection,
    PersistentPolicy,
    PolicyDecision,
    Prompt,
    ToolCall,
    Visibility,
    hookimpl,
    tool,
)


@tool
def save_page(page: str) -> None:
    """Save a page."""


@tool(wire_name="pages-show")
def show_page(page: str) -> None:
    """Show a page."""


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Rules by name, and lets everything pass."""

    governed: frozenset[str]
    name: str = ""

    def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None:
        pass


def guard(*names: str, name: str = "guard") -> Guard:
    return Guard(governed=frozenset(names), name=name)


def wiki(policies: Iterable[Any] = (), **options: Any) -> MarkdownSection[Any]:
    return MarkdownSection(
        key="wiki", title="Wiki", tools=[save_page, show_page], policies=[*policies], **options
    )


def dispatch(host: Host, prompt: Prompt | None = None) -> None:
    with host.executor(prompt=prompt) as tools:
        tools.dispatch(ToolCall("save_page", {"page": "a"}))
        tools.dispatch(ToolCall("save_page", {"page": "a"}))


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The log records about names."""
    caplog.set_level(logging.WARNING, logger="toolstile.policies")
    return lambda: [
        each.getMessage() for each in caplog.records if each.name == "toolstile.policies.names"
    ]


@pytest.mark.parametrize("level", ["section", "prompt", "host"])
def test_a_policy_is_told_of_once_with_the_name_and_those_near(
    told: Callable[[], list[str]], level: str
) -> None:
    stray = [guard("save_pgae", "show_page")]
    of_host = stray if level == "host" else []
    of_prompt = stray if level == "prompt" else []
    prompt = Prompt.of("tests", "wiki", [wiki(stray if level == "section" else [])], of_prompt)

    with Host(discover=False, policies=of_host) as host:
        dispatch(host, prompt)
        dispatch(host, prompt)

    [line] = told()
    assert line == (
        "Policy 'guard' refers to unknown tools: 'save_pgae' (did you mean 'save_page'?). This "
        "part of the policy has no effect. Fix the names, or load the plugin that offers them."
    )


def test_no_more_than_two_names_are_suggested(told: Callable[[], list[str]]) -> None:
    @tool(name="save_pages")
    def all_of_them() -> None:
        """Save all."""

    @tool(name="saved_page")
    def saved() -> None:
        """Show what is saved."""

    more = MarkdownSection(key="more", title="More", tools=[all_of_them, saved])
    with Host(discover=False, policies=[guard("save_pag")]) as host:
        dispatch(host, Prompt.of("tests", "wiki", [wiki(), more]))

    (line,) = told()
    assert "(did you mean 'save_page' or 'saved_page'?)" in line


def test_several_names_of_one_policy_are_told_of_together(told: Callable[[], list[str]]) -> None:
    with Host(discover=False, policies=[guard("pages-shwo", "quux")]) as host:
        dispatch(host, Prompt.of("tests", "wiki", [wiki()]))

    assert len(told()) == 1
    assert ": 'pages-shwo' (did you mean 'pages-show'?), 'quux'. This part" in told()[0]


def test_each_policy_is_told_of_by_the_name_it_was_given(told: Callable[[], list[str]]) -> None:
    section = wiki([guard("quux", name=""), guard("quux", name="")])

    with Host(discover=False) as host:
        dispatch(host, Prompt.of("tests", "wiki", [section]))

    assert [each.split(" refers to ")[0] for each in told()] == [
        "Policy 'Guard@wiki#1'",
        "Policy 'Guard@wiki#2'",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"enabled": lambda session: False},
        {"visibility": Visibility.SUMMARY, "summary": "Pages."},
    ],
)
def test_tools_of_any_section_are_known_by_either_name(
    told: Callable[[], list[str]], options: dict[str, Any]
) -> None:
    rule = guard("save_page", "show_page", "pages-show", "open_sections")

    with Host(discover=False, policies=[rule]) as host:
        dispatch(host, Prompt.of("tests", "wiki", [wiki(**options)], []))

    assert told() == []


def test_tools_of_plugins_are_known_also_where_the_prompt_is_another(
    told: Callable[[], list[str]],
) -> None:
    class Plugin:
        @hookimpl
        def toolstile_sections(self) -> list[MarkdownSection[Any]]:
            return [wiki()]

    with Host(discover=False, plugins=[Plugin()], policies=[guard("save_page")]) as host:
        dispatch(host, Prompt.of("tests", "empty"))

    assert told() == []


def test_policies_of_a_renamed_plugin_know_its_tools_by_their_own_names(
    told: Callable[[], list[str]],
) -> None:
    class Pages:
        @hookimpl
        def toolstile_sections(self) -> list[MarkdownSection[Any]]:
            return [wiki([guard("save_page", "my_show_page", name="own")])]

    settings = Settings(plugins={"pages": {"prefix": "my_"}}, optional_plugins=("pages",))
    with Host(discover=False, settings=settings, policies=[guard("my_save_page")]) as host:
        host.register(Pages(), "pages")
        dispatch(host)

    assert len(told()) == 1
    assert "Policy 'own' refers" in told()[0]
    assert "'my_show_page' (did you mean 'show_page'" in told()[0]


def test_a_policy_that_is_kept_is_told_of_as_well(
    told: Callable[[], list[str]], tmp_path: Path
) -> None:
    kept = PersistentPolicy(guard("quux"), tmp_path / "kept.json")

    with Host(discover=False, policies=[kept]) as host:
        dispatch(host, Prompt.of("tests", "wiki", [wiki()]))

    assert ["quux" in each for each in told()] == [True]

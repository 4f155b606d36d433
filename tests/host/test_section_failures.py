"""A section whose function fails is named, with its plugin and what to do."""

import pytest

from toolstile import Host
from toolstile_hookspecs import (
    MarkdownSection,
    PluginError,
    Prompt,
    ToolCall,
    hookimpl,
    tool,
)


@tool
def look() -> str:
    """Look."""
    return "seen"


def fails(session):
    raise LookupError("no such slice.")


class Desk:
    def __init__(self, **functions):
        self.functions = functions

    @hookimpl
    def toolstile_sections(self):
        return [MarkdownSection(key="desk", title="Desk", tools=[look], **self.functions)]


def refused(plugins=(), prompt=None):
    """Returns what a call is told that cannot run."""
    with (
        Host(discover=False, plugins=plugins) as host,
        host.executor(prompt=prompt) as tools,
        pytest.raises(PluginError) as raised,
    ):
        tools.dispatch(ToolCall("look"))
    return str(raised.value)


@pytest.mark.parametrize("function", ["on_session", "enabled"])
def test_a_plugins_section_is_named_with_the_place_and_the_remedy(function):
    told = refused([Desk(**{function: fails})])
    assert told.startswith(
        f"Section 'desk' of plugin Desk keeps every call from running: its {function} raised "
        f"LookupError: no such slice ({__file__}, line "
    )
    assert told.endswith("Fix it, or block the plugin with TOOLSTILE_BLOCK=Desk.")


def test_so_it_is_where_it_uses_the_session_wrongly():
    told = refused([Desk(on_session=lambda session: session["x"])])
    assert "its on_session raised StateError: Slices are named by a class, which 'x' is not" in told


def test_a_prompts_own_section_is_named_without_a_plugin():
    section = MarkdownSection(key="own", title="Own", on_session=fails)
    told = refused(prompt=Prompt.of("tests", "own", [section]))
    assert told.startswith("Section 'own' keeps every call")
    assert told.endswith(" Fix it.")

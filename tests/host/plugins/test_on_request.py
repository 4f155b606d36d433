"""Tools that a plugin offers on request: who asks for them, and what is said where nobody has."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import (
    Binding,
    ConfigurationError,
    Filesystem,
    MarkdownSection,
    ToolCall,
    hookimpl,
    tool,
)
from toolstile_plugins import planning, vfs
from toolstile_plugins.vfs import VirtualFilesystem

DIARY = """
    '''A diary.'''
    from toolstile_hookspecs import Binding, MarkdownSection, hookimpl, tool

    toolstile_on_request = "there is no diary; add [plugins.zq-diary] to the configuration"

    class Diary: ...

    @tool(category="write")
    def zq_write(line: str) -> str:
        "Write a line."
        return line

    @hookimpl
    def toolstile_sections():
        return [MarkdownSection(key="zq-diary", title="Diary", tools=[zq_write])]

    @hookimpl
    def toolstile_resources():
        return [Binding(Diary, lambda resources: Diary())]
"""
REMEDY = "there is no diary; add [plugins.zq-diary] to the configuration"


@pytest.fixture(autouse=True)
def diary(install):
    install("zq-diary", DIARY)


def names(**options: Any) -> set[str]:
    with Host(**{"settings": Settings(), **options}) as host:
        assert {tool.name for tool in host.prompt.tools()} == {*host.catalog.names()}
        return {*host.catalog.names()}


def test_nobody_is_offered_what_nobody_asked_for():
    assert names() == set()


@pytest.mark.parametrize(
    "options",
    [
        {"settings": Settings(plugins={"zq-diary": {}})},
        {"settings": Settings(plugins={"zq_diary": {"enabled": True}})},
        {"discover": ["zq-diary"]},
    ],
    ids=["an empty table", "a table", "its name"],
)
def test_it_is_asked_for_by_its_table_or_its_name(options):
    assert names(**options) == {"zq_write"}


def test_it_is_asked_for_by_binding_what_it_binds():
    import zq_diary

    assert names(resources={zq_diary.Diary: zq_diary.Diary()}) == {"zq_write"}
    assert names(resources={int: 1}) == set()


def test_what_an_application_registers_itself_is_asked_for(tmp_path):
    file = tmp_path / "zq_note.py"
    file.write_text(
        "from toolstile_hookspecs import MarkdownSection, hookimpl, tool\n"
        "toolstile_on_request = 'never mind'\n"
        "@tool\n"
        "def zq_note() -> None:\n    'Note it.'\n"
        "@hookimpl\n"
        "def toolstile_sections():\n"
        "    return [MarkdownSection(key='note', title='Note', tools=[zq_note])]\n"
    )
    assert names(plugin_files=[file]) == {"zq_note"}
    assert names(plugins=[planning], discover=False) >= {"planning_setup_plan"}


OWN = ("asteval", "code", "planning", "sandbox", "vfs", "workspace_digest")


@pytest.mark.parametrize("plugin", OWN)
def test_toolstiles_own_plugins_name_the_tools_that_they_withhold(plugin):
    named = importlib.import_module(f"toolstile_plugins.{plugin}").toolstile_on_request
    host = Host(settings=Settings(plugins={plugin: {}}), discover=[plugin])
    assert {*named} == {*host.catalog.names()}


def test_sections_of_named_tools_are_built_after_a_request_only(install):
    install(
        "zq-named",
        DIARY.replace("class Diary: ...", "built = []\n\n    class Diary: ...")
        .replace(
            '"there is no diary; add [plugins.zq-diary] to the configuration"',
            '{"zq_write": "no diary"}',
        )
        .replace("return [MarkdownSection", "built.append(1); return [MarkdownSection"),
    )
    with Host(settings=Settings(), block=["zq-diary"]) as host, host.executor() as tools:
        outcome = tools.dispatch(ToolCall("zq_write", {"line": "x"}))
        assert outcome.text == "zq_write is not offered here. Use another tool."
        assert outcome.event.attributes["toolstile.for_operator"] == "no diary"
    import zq_named

    assert zq_named.built == []
    assert names(settings=Settings(plugins={"zq-named": {}}), block=["zq-diary"]) == {"zq_write"}
    assert zq_named.built == [1]


def test_a_prefix_goes_before_what_is_asked_for():
    assert names(settings=Settings(plugins={"zq-diary": {"prefix": "my_"}})) == {"my_zq_write"}


def test_configuring_a_host_with_an_empty_table_asks_for_it():
    host = Host(settings=Settings())
    host.configure({"plugins.zq-diary": {}})
    with host:
        assert host.catalog.names() == ("zq_write",)


def test_a_call_says_how_to_ask():
    with Host(settings=Settings()) as host, host.executor() as tools:
        outcome = tools.dispatch(ToolCall("zq_write", {"line": "x"}))
        assert outcome.text == "zq_write is not offered here. Use another tool."
        assert outcome.event.attributes["toolstile.for_operator"] == REMEDY


def test_a_prompt_of_the_application_is_not_told_of_it():
    @tool
    def zq_writes() -> None:
        """Write all."""

    with Host(settings=Settings()) as host, host.executor(tools=[zq_writes]) as tools:
        text = tools.dispatch(ToolCall("zq_write")).text
        assert text == "Unknown tool 'zq_write'. Did you mean zq_writes? Use that, then retry."


def test_the_name_is_free_for_another_tool():
    class Other:
        @hookimpl
        def toolstile_sections(self) -> list[MarkdownSection[Any]]:
            @tool
            def zq_write() -> str:
                """Write something else."""
                return "elsewhere"

            return [MarkdownSection(key="other", title="Other", tools=[zq_write])]

    with Host(settings=Settings(), plugins=[Other()]) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("zq_write")).text == "elsewhere"


def test_the_report_says_how_to_ask():
    def report(settings: Settings) -> Any:
        with Host(settings=settings) as host:
            (found,) = (each for each in host.plugins.reports if each.name == "zq-diary")
        return found

    asleep = report(Settings())
    assert (asleep.status, asleep.fault, asleep.tools) == ("loaded", None, ())
    assert asleep.remedy == REMEDY
    awake = report(Settings(plugins={"zq-diary": {}}))
    assert (awake.tools, awake.remedy) == (("zq_write",), None)


@pytest.mark.parametrize("name", ["zq_write", "zq_*"])
def test_a_rule_about_such_a_tool_says_how_to_ask(name):
    rule = {"kind": "rate_limit", "max_calls_per_minute": 1, "tools": [name]}
    with pytest.raises(ConfigurationError) as refused:
        Host(settings=Settings(policies=(rule,))).open()
    assert f"refers to unknown tools: {name!r}. This part of the policy has no effect" in str(
        refused.value
    )
    assert str(refused.value).endswith(f"Tools are offered on request: {REMEDY}.")
    with Host(settings=Settings(policies=(rule,), plugins={"zq-diary": {}})):
        pass


def test_a_rule_of_file_tools_without_a_workspace_says_how_to_get_one():
    rule = {"kind": "read_before_write", "write_tools": ["write_file"]}
    with pytest.raises(ConfigurationError) as refused:
        Host(settings=Settings(policies=(rule,))).open()
    told = "on request: the host has no workspace; add --workspace DIR, or [plugins.vfs]"
    assert told in str(refused.value)


def test_an_application_that_binds_a_workspace_is_offered_the_file_tools():
    files = VirtualFilesystem.in_memory({"a.txt": "one\n"})
    with (
        Host(settings=Settings(), resources=(Binding.instance(Filesystem, files),)) as host,
        host.executor() as tools,
    ):
        assert "one" in tools.dispatch(ToolCall("read_file", {"path": "a.txt"})).text
        assert "planning_setup_plan" not in host.catalog.names()


def test_both_built_in_suites_are_offered_on_request():
    assert planning.toolstile_on_request
    assert vfs.toolstile_on_request
